//go:build !race

package engine

// RaceDetector is true if the race detector is on.
const RaceDetector = false
