//go:build !race

package vector

// raceDetector is true if the race detector is on.
const raceDetector = false
