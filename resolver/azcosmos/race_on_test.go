//go:build race

package azcosmos_test

// raceDetector says that the race detector is on, under which tests do less of the same.
const raceDetector = true
