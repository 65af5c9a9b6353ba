//go:build race

package scan_test

// raceDetector says that the race detector is on. It slows the work of one goroutine
// down ten times, so tests do less.
const raceDetector = true
