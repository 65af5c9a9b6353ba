//go:build race

package copyjob

// raceDetector is true if the race detector is on. It slows down one goroutine
// tenfold, so tests then do less work.
const raceDetector = true
