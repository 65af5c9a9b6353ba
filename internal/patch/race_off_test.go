//go:build !race

package patch

// raceDetector is true if the race detector is on.
const raceDetector = false
