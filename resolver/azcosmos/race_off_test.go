//go:build !race

package azcosmos_test

// raceDetector is true if the race detector is on; tests then run fewer cases.
const raceDetector = false
