package redisqueue

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"writ/internal/failpoint"
	"writ/runner/queue"
)

// A stream has one group with one consumer: its reader is the same after a restart, and gets again what it did not acknowledge.
const (
	group       = "writ"
	consumer    = "reader"
	field       = "b"    // of a message: its body
	maxWaiting  = 10_000 // about, per stream; see the package comment
	maxReceived = 100    // messages of one Receive, as package queue says
)

// blockFor bounds one blocking command. A caller whose context ends waits at most so long; go-redis cannot interrupt a read.
const blockFor = 250 * time.Millisecond

// cursor says how far this process has read a stream again.
type cursor struct {
	caughtUp bool   // all that was received before and never acknowledged has come; now new messages come
	last     string // the last message that came again
}

func streamKey(s queue.Stream) string { return "writ:{" + string(s.Node) + "}:" + string(s.Direction) }

// Send implements queue.Queue.
func (q *Queue) Send(ctx context.Context, stream queue.Stream, body []byte) error {
	failpoint.Begin(ctx)
	err := q.client.XAdd(ctx, &redis.XAddArgs{
		Stream: streamKey(stream),
		MaxLen: maxWaiting,
		Approx: true,
		Values: []any{field, body},
	}).Err()
	failpoint.End(ctx, err)
	return away(ctx, err)
}

// Acknowledge implements queue.Queue. A stream of which messages are not deleted grows for ever.
func (q *Queue) Acknowledge(ctx context.Context, messages ...queue.Message) error {
	if len(messages) == 0 {
		return nil
	}
	ids := map[queue.Stream][]string{}
	for _, m := range messages {
		ids[m.Stream] = append(ids[m.Stream], m.ID)
	}
	failpoint.Begin(ctx)
	_, err := q.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for stream, ids := range ids {
			p.XAck(ctx, streamKey(stream), group, ids...)
			p.XDel(ctx, streamKey(stream), ids...)
		}
		return nil
	})
	failpoint.End(ctx, err)
	return away(ctx, err)
}

// Receive implements queue.Queue.
func (q *Queue) Receive(ctx context.Context, wait time.Duration, streams ...queue.Stream) ([]queue.Message, error) {
	if len(streams) == 0 {
		return nil, pause(ctx, wait)
	}
	for deadline := time.Now().Add(wait); ; {
		if messages := q.takeHeld(streams); len(messages) > 0 {
			return messages, nil
		}
		again, err := q.readAgain(ctx, streams)
		if err == nil && !again {
			block := min(max(time.Until(deadline), time.Millisecond), blockFor)
			err = q.readNew(ctx, block, streams)
		}
		if redis.HasErrorPrefix(err, "NOGROUP") {
			if err = q.makeGroups(ctx, streams); err == nil {
				continue
			}
		}
		if err != nil {
			q.lose(streams)
			return nil, away(ctx, err)
		}
		if messages := q.takeHeld(streams); len(messages) > 0 {
			return messages, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !again && time.Now().After(deadline) {
			return nil, nil
		}
	}
}

// readAgain reads the next part of what this process, or the one before it, received and did not acknowledge. It returns false when
// there is nothing left.
func (q *Queue) readAgain(ctx context.Context, streams []queue.Stream) (again bool, err error) {
	var behind []queue.Stream
	args := &redis.XReadGroupArgs{Group: group, Consumer: consumer, Count: share(streams), Block: -1}
	var ids []string
	q.mu.Lock()
	for _, s := range streams {
		c := q.cursors[s]
		if c == nil {
			c = &cursor{last: "0"}
			q.cursors[s] = c
		}
		if !c.caughtUp {
			behind = append(behind, s)
			args.Streams = append(args.Streams, streamKey(s))
			ids = append(ids, c.last)
		}
	}
	q.mu.Unlock()
	if len(behind) == 0 {
		return false, nil
	}
	args.Streams = append(args.Streams, ids...)
	replies, err := q.read(ctx, args)
	if err != nil {
		return false, err
	}
	for _, s := range behind {
		q.hold(ctx, s, replies[streamKey(s)], func(c *cursor, last string) {
			c.caughtUp, c.last = last == "", last
		})
	}
	return true, nil
}

// readNew waits for messages that nobody has received yet.
func (q *Queue) readNew(ctx context.Context, block time.Duration, streams []queue.Stream) error {
	args := &redis.XReadGroupArgs{Group: group, Consumer: consumer, Count: share(streams), Block: block}
	for _, s := range streams {
		args.Streams = append(args.Streams, streamKey(s))
	}
	for range streams {
		args.Streams = append(args.Streams, ">")
	}
	replies, err := q.read(ctx, args)
	if err != nil {
		return err
	}
	for _, s := range streams {
		q.hold(ctx, s, replies[streamKey(s)], func(*cursor, string) {})
	}
	return nil
}

// share is the COUNT per stream with which a reply is little more than one Receive.
func share(streams []queue.Stream) int64 {
	return int64((maxReceived + len(streams) - 1) / len(streams))
}

func (q *Queue) read(ctx context.Context, args *redis.XReadGroupArgs) (map[string][]redis.XMessage, error) {
	replies, err := q.reader.XReadGroup(ctx, args).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	byKey := make(map[string][]redis.XMessage, len(replies))
	for _, r := range replies {
		byKey[r.Stream] = r.Messages
	}
	return byKey, err
}

// hold keeps messages of a stream to be handed out, and lets moved know the id of the last one. Of a message that was dropped before
// it was acknowledged Redis remembers the id only; that is acknowledged here.
func (q *Queue) hold(ctx context.Context, stream queue.Stream, messages []redis.XMessage, moved func(c *cursor, last string)) {
	last := ""
	var dropped []string
	q.mu.Lock()
	for _, m := range messages {
		last = m.ID
		body, ok := m.Values[field].(string)
		if !ok {
			dropped = append(dropped, m.ID)
			continue
		}
		q.held[stream] = append(q.held[stream], queue.Message{Stream: stream, ID: m.ID, Body: []byte(body)})
	}
	moved(q.cursors[stream], last)
	q.mu.Unlock()
	if len(dropped) > 0 {
		q.log().WarnContext(ctx, "messages were dropped before they were read", "node", stream.Node, "stream", stream.Direction, "count", len(dropped))
		_ = q.client.XAck(ctx, streamKey(stream), group, dropped...).Err() // else they come once more after a restart, and go the same way
	}
}

// takeHeld hands out messages that were read. It passes over each stream once: a datacenter has as many as nodes.
func (q *Queue) takeHeld(streams []queue.Stream) []queue.Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	var taken []queue.Message
	for _, s := range streams {
		held, room := q.held[s], maxReceived-len(taken)
		switch {
		case len(q.held) == 0, room == 0:
			return taken
		case len(held) > room:
			q.held[s] = held[room:]
			return append(taken, held[:room]...)
		case len(held) > 0:
			delete(q.held, s)
			taken = append(taken, held...)
		}
	}
	return taken
}

// lose starts streams over after an error: a reply may be lost whose messages count as received.
func (q *Queue) lose(streams []queue.Stream) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range streams {
		delete(q.cursors, s)
		delete(q.held, s)
	}
}

// makeGroups makes the groups of streams that have none, and the streams with them. They begin at 0: what was sent before counts.
func (q *Queue) makeGroups(ctx context.Context, streams []queue.Stream) error {
	for _, s := range streams {
		err := q.client.XGroupCreateMkStream(ctx, streamKey(s), group, "0").Err()
		if err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
			return err
		}
	}
	return nil
}

// pause waits, or returns the error of ctx.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
