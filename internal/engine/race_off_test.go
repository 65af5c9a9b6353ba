//go:build !race

package engine_test

// raceDetector says that the race detector is on.
const raceDetector = false
