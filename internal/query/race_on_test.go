//go:build race

package query

// raceDetector is true if the race detector is on, which makes pools forget their values.
const raceDetector = true
