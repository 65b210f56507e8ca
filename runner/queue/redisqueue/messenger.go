package redisqueue

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"writ/internal/failpoint"
	"writ/internal/sleep"
	"writ/runner/queue"
)

// A stream has one group with one consumer. After a restart, the reading process is the same consumer and receives all
// messages again that it did not acknowledge.
const (
	group       = "writ"
	consumer    = "reader"
	field       = "b"    // field of a message with its body
	maxWaiting  = 10_000 // approximate limit per stream; see the package comment
	maxReceived = 100    // messages of one Receive, as package queue specifies
)

// blockFor limits one blocking command. The end of a command without a message costs CPU time in Redis and in this
// process.
const blockFor = 5 * time.Second

// messenger sends and receives the messages of streams.
type messenger struct {
	*access

	mu           sync.Mutex
	cursors      map[queue.Stream]*cursor
	held         map[queue.Stream][]queue.Message // messages received and not yet returned
	meters       map[queue.Stream]*meter
	readMessages float64 // limit per node and second
	turn         int     // rotates the streams, because the first one gets most of the space in a reply
}

func newMessenger(a *access) *messenger {
	return &messenger{
		access: a, cursors: map[queue.Stream]*cursor{}, held: map[queue.Stream][]queue.Message{},
		meters: map[queue.Stream]*meter{}, readMessages: readMessages,
	}
}

// cursor is the position of this process in a stream.
type cursor struct {
	caughtUp bool      // all unacknowledged messages were received; only new messages follow
	last     string    // ID of the last received message
	mended   time.Time // time when the stream was last replaced because its key had another type
	aside    time.Time // the stream is not read before this time
}

// A stream that was replaced twice within mendedAgain is not read for setAside, so that a node that corrupts its stream
// delays no other node.
const (
	mendedAgain = time.Minute
	setAside    = time.Second
)

func streamKey(s queue.Stream) string { return "writ:{" + string(s.Node) + "}:" + string(s.Direction) }

// Send implements queue.Queue.
func (ms *messenger) Send(ctx context.Context, stream queue.Stream, body []byte) error {
	add := func() error {
		return ms.client.XAdd(ctx, &redis.XAddArgs{
			Stream: streamKey(stream),
			MaxLen: maxWaiting,
			Approx: true,
			Values: []any{field, body},
		}).Err()
	}
	failpoint.Begin(ctx)
	err := ms.mended(ctx, stream.Node, nil, add(), add)
	failpoint.End(ctx, err)
	return away(ctx, err)
}

// Acknowledge implements queue.Queue. It also deletes the messages, because otherwise the stream would grow forever.
func (ms *messenger) Acknowledge(ctx context.Context, messages ...queue.Message) error {
	if len(messages) == 0 {
		return nil
	}
	ids := map[queue.Stream][]string{}
	for _, m := range messages {
		ids[m.Stream] = append(ids[m.Stream], m.ID)
	}
	failpoint.Begin(ctx)
	done, err := ms.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for stream, ids := range ids {
			p.XAck(ctx, streamKey(stream), group, ids...)
			p.XDel(ctx, streamKey(stream), ids...)
		}
		return nil
	})
	failpoint.End(ctx, err)
	if isWrongType(err) { // the stream was replaced, so its messages no longer exist
		err = nil
		for _, one := range done {
			if !isWrongType(one.Err()) {
				err = cmp.Or(err, one.Err())
			}
		}
	}
	return away(ctx, err)
}

// Receive implements queue.Queue.
func (ms *messenger) Receive(
	ctx context.Context, wait time.Duration, streams ...queue.Stream,
) ([]queue.Message, error) {
	if len(streams) == 0 {
		return nil, sleep.For(ctx, wait)
	}
	defer context.AfterFunc(ctx, ms.waits.interrupt)()
	for deadline := time.Now().Add(wait); ; {
		if messages := ms.takeHeld(streams); len(messages) > 0 {
			return messages, nil
		}
		more, err := ms.readSome(ctx, min(max(time.Until(deadline), time.Millisecond), blockFor), streams)
		if err != nil {
			ms.lose(streams)
			if errors.Is(err, errInterrupted) && ctx.Err() == nil {
				continue
			}
			return nil, away(ctx, err)
		}
		if messages := ms.takeHeld(streams); len(messages) > 0 {
			return messages, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !more && time.Now().After(deadline) {
			return nil, nil
		}
	}
}

// readSome sends one request for unacknowledged messages and one for new messages. It waits for new messages, for at
// most block, only if all streams have caught up. more reports whether further messages may be available at once.
// readSome creates a missing group and replaces a key that is not a stream.
func (ms *messenger) readSome(ctx context.Context, block time.Duration, streams []queue.Stream) (more bool, err error) {
	behind, caughtUp := ms.sort(streams)
	if len(behind)+len(caughtUp) == 0 {
		return false, sleep.For(ctx, min(block, allAside))
	}
	if len(behind) > 0 {
		err = ms.readAgain(ctx, behind)
		block = -1
	}
	if err == nil && len(caughtUp) > 0 {
		if len(behind) == 0 && len(caughtUp) < len(streams) {
			block = min(block, allAside)
		}
		err = ms.readNew(ctx, block, caughtUp)
	}
	switch {
	// UNBLOCKED: the stream was deleted meanwhile.
	case redis.HasErrorPrefix(err, "NOGROUP"), redis.HasErrorPrefix(err, "UNBLOCKED"), isWrongType(err):
		return true, ms.makeStreams(ctx, streams)
	}
	return len(behind) > 0, err
}

// allAside is the pause if no stream may be read now, because each is over its limit or set aside. While some streams
// may not be read, it limits the wait for new messages in the others.
const allAside = 20 * time.Millisecond

// sort returns the streams that may still have unacknowledged messages (behind) and the streams that have only new
// messages (caughtUp). It omits streams that must not be read now.
func (ms *messenger) sort(streams []queue.Stream) (behind, caughtUp []queue.Stream) {
	now := time.Now()
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.turn++
	first := ms.turn % len(streams)
	for i := range streams {
		s := streams[(first+i)%len(streams)]
		c := ms.cursor(s)
		switch {
		case c.aside.After(now), ms.meters[s].empty(now):
		case c.caughtUp:
			caughtUp = append(caughtUp, s)
		default:
			behind = append(behind, s)
		}
	}
	return behind, caughtUp
}

// cursor returns the cursor of a stream. The caller must hold mu.
func (ms *messenger) cursor(s queue.Stream) *cursor {
	c := ms.cursors[s]
	if c == nil {
		c = &cursor{last: "0"}
		ms.cursors[s] = c
	}
	return c
}

// readAgain reads the next unacknowledged messages of this process or its predecessor.
func (ms *messenger) readAgain(ctx context.Context, behind []queue.Stream) error {
	args := &redis.XReadGroupArgs{Group: group, Consumer: consumer, Count: share(behind), Block: -1}
	var ids []string
	ms.mu.Lock()
	for _, s := range behind {
		args.Streams = append(args.Streams, streamKey(s))
		ids = append(ids, ms.cursor(s).last)
	}
	ms.mu.Unlock()
	args.Streams = append(args.Streams, ids...)
	replies, err := readGroup(ctx, ms.reader, args)
	if err != nil {
		return err
	}
	for _, s := range behind {
		messages := replies[streamKey(s)]
		ms.hold(ctx, s, messages, len(messages) == 0)
	}
	return nil
}

// readNew reads new messages and waits for them for at most block.
func (ms *messenger) readNew(ctx context.Context, block time.Duration, streams []queue.Stream) error {
	args := &redis.XReadGroupArgs{Group: group, Consumer: consumer, Count: share(streams), Block: block}
	for _, s := range streams {
		args.Streams = append(args.Streams, streamKey(s))
	}
	for range streams {
		args.Streams = append(args.Streams, ">")
	}
	replies, err := readGroup(ctx, ms.reader, args)
	if err != nil {
		return err
	}
	for _, s := range streams {
		ms.hold(ctx, s, replies[streamKey(s)], true)
	}
	return nil
}

// share returns the COUNT per stream, such that a reply has only a few more messages than one Receive returns.
func share(streams []queue.Stream) int64 {
	return int64((maxReceived + len(streams) - 1) / len(streams))
}

// readGroup returns the messages of a reply by the key of their stream.
func readGroup(
	ctx context.Context, reader *redis.Client, args *redis.XReadGroupArgs,
) (map[string][]redis.XMessage, error) {
	replies, err := reader.XReadGroup(ctx, args).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	byKey := make(map[string][]redis.XMessage, len(replies))
	for _, r := range replies {
		byKey[r.Stream] = r.Messages
	}
	return byKey, err
}

// hold stores messages of a stream for Receive. caughtUp means that no unacknowledged messages follow. For a message
// that was trimmed before its acknowledgement, Redis returns only the ID; hold acknowledges it. An oversized message is
// removed. If the reply had no space for a message, this message and all later ones will be received again.
func (ms *messenger) hold(ctx context.Context, stream queue.Stream, messages []redis.XMessage, caughtUp bool) {
	var gone, refused []string
	var size, read int64
	ms.mu.Lock()
	c := ms.cursor(stream)
	for _, m := range messages {
		body, ok := m.Values[field].(string)
		later, length, isMark := marked(body)
		if isMark && later {
			caughtUp = false
			break
		}
		c.last = m.ID
		switch {
		case isMark:
			refused = append(refused, m.ID)
			size += length
			read += length
		case !ok && m.Values == nil:
			gone = append(gone, m.ID)
		case !ok:
			refused = append(refused, m.ID)
		default:
			read += int64(len(body))
			ms.held[stream] = append(ms.held[stream], queue.Message{Stream: stream, ID: m.ID, Body: []byte(body)})
		}
	}
	c.caughtUp = caughtUp
	slow := false
	if len(messages) > 0 && stream.Direction == queue.Out {
		slow = ms.meter(stream).take(time.Now(), int64(len(messages)), read)
	}
	ms.mu.Unlock()
	if slow {
		ms.offences.add(queue.Finding{Node: stream.Node, Offence: queue.TooFast, Count: 1})
	}
	if len(gone) > 0 {
		ms.log().DebugContext(ctx, "messages were dropped before they were read", "node", stream.Node,
			"stream", stream.Direction, "count", len(gone))
		// If this fails, the IDs arrive again after a restart and are handled in the same way.
		_ = ms.client.XAck(ctx, streamKey(stream), group, gone...).Err()
	}
	if len(refused) > 0 {
		ms.offences.add(queue.Finding{Node: stream.Node, Offence: queue.Oversize, Count: int64(len(refused)), Bytes: size})
		removeMessages(ctx, ms.client, stream, refused)
	}
}

// removeMessages deletes messages that must not be received.
func removeMessages(ctx context.Context, client *redis.Client, stream queue.Stream, ids []string) {
	// After a failure, the messages are received again and handled in the same way.
	_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.XAck(ctx, streamKey(stream), group, ids...)
		p.XDel(ctx, streamKey(stream), ids...)
		return nil
	})
}

// takeHeld returns stored messages. It visits each stream at most once, because there may be thousands: one for every
// node.
func (ms *messenger) takeHeld(streams []queue.Stream) []queue.Message {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	var taken []queue.Message
	for _, s := range streams {
		held, room := ms.held[s], maxReceived-len(taken)
		switch {
		case len(ms.held) == 0, room == 0:
			return taken
		case len(held) > room:
			ms.held[s] = held[room:]
			return append(taken, held[:room]...)
		case len(held) > 0:
			delete(ms.held, s)
			taken = append(taken, held...)
		}
	}
	return taken
}

// lose resets streams after an error: the reply may be lost, although Redis counts its messages as received.
func (ms *messenger) lose(streams []queue.Stream) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, s := range streams {
		if c := ms.cursors[s]; c != nil {
			c.caughtUp, c.last = false, "0"
		}
		delete(ms.held, s)
	}
}

// makeStreams creates missing groups and streams, and replaces keys of other types. Groups begin at 0, so that earlier
// messages are read.
func (ms *messenger) makeStreams(ctx context.Context, streams []queue.Stream) error {
	made := make([]*redis.StatusCmd, len(streams))
	_, err := ms.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, s := range streams {
			made[i] = p.XGroupCreateMkStream(ctx, streamKey(s), group, "0")
		}
		return nil
	})
	if err != nil && !isReply(err) {
		return err
	}
	for i, s := range streams {
		switch err := made[i].Err(); {
		case err == nil, redis.HasErrorPrefix(err, "BUSYGROUP"):
		case isWrongType(err):
			if err := ms.replace(ctx, s); err != nil {
				return err
			}
		// This process is a node, which may not create groups. Its supervisor creates the group within about a second.
		case redis.HasErrorPrefix(err, "NOPERM"):
			ms.mu.Lock()
			ms.cursor(s).aside = time.Now().Add(scriptPause)
			ms.mu.Unlock()
		default:
			return err
		}
	}
	return nil
}

// replace recreates a stream whose key has another type.
func (ms *messenger) replace(ctx context.Context, s queue.Stream) error {
	if _, err := ms.deleteMistyped(ctx, s.Node); err != nil {
		return err
	}
	now := time.Now()
	ms.mu.Lock()
	delete(ms.held, s)
	before := ms.cursor(s).mended
	ms.cursors[s] = &cursor{last: "0", mended: now}
	if now.Sub(before) < mendedAgain {
		ms.cursors[s].aside = now.Add(setAside)
	}
	ms.mu.Unlock()
	err := ms.client.XGroupCreateMkStream(ctx, streamKey(s), group, "0").Err()
	if err == nil || redis.HasErrorPrefix(err, "BUSYGROUP") || isWrongType(err) {
		return nil
	}
	return err
}
