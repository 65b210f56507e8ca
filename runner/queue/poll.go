package queue

import "time"

// Bounds of PollInterval. Two milliseconds keep ten calls in a row below 40 ms; below that, an idle node only burns CPU. At a
// quarter of a second a person begins to notice.
const (
	MinPoll = 2 * time.Millisecond
	MaxPoll = 250 * time.Millisecond
)

// checksPerSecond is how many looks into empty queues one Redis should have to answer, a few percent of what it can.
const checksPerSecond = 2000

// PollInterval returns how long the mean time between two looks of a node into its empty queue should be when nodes share one
// Redis: a node's share of the budget, between MinPoll and MaxPoll.
func PollInterval(nodes int) time.Duration {
	return min(max(time.Duration(nodes)*time.Second/checksPerSecond, MinPoll), MaxPoll)
}
