//go:build !race

package engine_test

// raceDetector is true if the race detector is on.
const raceDetector = false
