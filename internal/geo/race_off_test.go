//go:build !race

package geo

// raceDetector is true if the race detector is on.
const raceDetector = false
