//go:build !race

package copyjob

// raceDetector is true if the race detector is on.
const raceDetector = false
