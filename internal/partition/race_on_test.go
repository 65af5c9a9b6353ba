//go:build race

package partition

// raceDetector says that the race detector is on. It slows the work of one goroutine
// down ten times, so tests do less.
const raceDetector = true
