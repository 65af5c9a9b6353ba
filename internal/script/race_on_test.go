//go:build race

package script

// slowdown is the factor by which the race detector slows down the engine.
const slowdown = 20
