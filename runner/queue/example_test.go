package queue_test

import (
	"context"
	"fmt"
	"time"

	"writ/runner/queue"
	"writ/runner/queue/memory"
)

// A supervisor pushes a job to a node. The node executes it and sends the result to its out stream.
func ExampleQueue() {
	ctx, stop := context.WithCancel(context.Background())
	supervisor := memory.New()
	defer supervisor.Close()
	node := supervisor.Attach()
	out := queue.Stream{Node: "n1", Direction: queue.Out}

	served := make(chan error)
	go func() {
		served <- node.Serve(ctx, "n1", 4, func(ctx context.Context, task queue.Task) {
			if err := node.Send(ctx, out, fmt.Appendf(nil, "did %s", task.Body)); err != nil {
				fmt.Println(err)
			}
		})
	}()

	task := queue.Task{ID: "run-1-1-1", Body: []byte("the signed job"), EndBy: time.Now().Add(time.Minute)}
	if err := supervisor.Push(ctx, "n1", task, task); err != nil { // a second task with the same ID is dropped
		fmt.Println(err)
	}
	messages, err := supervisor.Receive(ctx, time.Minute, out)
	for _, m := range messages {
		fmt.Printf("%s: %s\n", m.Stream.Node, m.Body)
	}
	if err == nil {
		err = supervisor.Acknowledge(ctx, messages...) // until then it is delivered again
	}
	stop()
	fmt.Println(err, <-served)

	// Output:
	// n1: did the signed job
	// <nil> <nil>
}
