//go:build !race

package query

// raceDetector says that the race detector is on.
const raceDetector = false
