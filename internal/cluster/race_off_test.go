//go:build !race

package cluster_test

// raceDetector says whether the race detector is on.
const raceDetector = false
