//go:build race

package engine

// RaceDetector is true if the race detector is on. It makes work of one
// goroutine ten times as slow, and has nothing to find there.
const RaceDetector = true
