//go:build race

package engine_test

// raceDetector says that the race detector is on: it makes work of one goroutine
// ten times as slow, and can find nothing in it.
const raceDetector = true
