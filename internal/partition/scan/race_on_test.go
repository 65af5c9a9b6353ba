//go:build race

package scan_test

// raceDetector says that the race detector is on: it makes work of one goroutine
// ten times as slow, so tests have less of it.
const raceDetector = true
