//go:build !race

package copyjob

// raceDetector says that the race detector is on.
const raceDetector = false
