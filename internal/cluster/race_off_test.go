//go:build !race

package cluster_test

// raceDetector says that the race detector is on.
const raceDetector = false
