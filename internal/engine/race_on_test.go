//go:build race

package engine_test

// raceDetector is true if the race detector is on. It makes work of one
// goroutine ten times as slow, and has nothing to find there.
const raceDetector = true
