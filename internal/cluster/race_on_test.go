//go:build race

package cluster_test

// raceDetector says whether the race detector is on. It slows one goroutine down by a
// factor of ten, so tests do less then.
const raceDetector = true
