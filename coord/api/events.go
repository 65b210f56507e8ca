package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"writ"
)

// Message is one message of an event stream.
type Message struct {
	ID    int64 // to resume after this message, send it as Last-Event-ID
	Reset bool  // events before ID were pruned: reload the shown state, then continue
	Event Event // not set if Reset
}

// resetEvent is the name of the message without an event.
const resetEvent = "reset"

// maxMessage limits a line of an event stream, in bytes. The longest lines are events with the summary of a run.
const maxMessage = 4 << 20

// Messages reads an event stream until it ends or the caller stops. A stream that is interrupted ends with an
// UNREACHABLE error. The caller can then open a new stream after the ID of the last message.
func Messages(stream io.Reader) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		lines := bufio.NewScanner(stream)
		lines.Buffer(make([]byte, 0, 64<<10), maxMessage)
		var m Message
		var name string
		var data []byte
		for lines.Scan() {
			field, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch {
			case len(lines.Bytes()) == 0:
				if data == nil {
					continue
				}
				m.Reset = name == resetEvent
				var err error
				if !m.Reset {
					err = json.Unmarshal(data, &m.Event)
				}
				if !yield(m, err) || err != nil {
					return
				}
				m, name, data = Message{ID: m.ID}, "", nil
			case string(field) == "id":
				if id, err := strconv.ParseInt(string(value), 10, 64); err == nil {
					m.ID = id
				}
			case string(field) == "event":
				name = string(value)
			case string(field) == "data":
				data = append(data, value...)
			}
		}
		yield(m, &writ.Error{Code: writ.CodeUnreachable, Message: "the event stream broke off", Err: lines.Err()})
	}
}

// WriteTo writes the message in the format that Messages reads.
func (m *Message) WriteTo(w io.Writer) (int64, error) {
	name, data := resetEvent, []byte("{}")
	if !m.Reset {
		var err error
		if data, err = json.Marshal(m.Event); err != nil {
			return 0, fmt.Errorf("encode event: %w", err)
		}
		name = string(m.Event.Topic)
	}
	n, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", m.ID, name, data)
	return int64(n), err
}

// EncodedMessage returns the text of the message about an event. event is a JSON object on one line: an Event without
// its topic, which this function adds.
func EncodedMessage(id int64, topic Topic, event string) ([]byte, error) {
	rest, ok := strings.CutPrefix(event, "{")
	if !ok || rest == "}" || strings.ContainsAny(event, "\r\n") {
		return nil, fmt.Errorf("event %d: expected a JSON object on one line", id)
	}
	text := make([]byte, 0, len(event)+2*len(topic)+64)
	text = strconv.AppendInt(append(text, "id: "...), id, 10)
	for _, part := range []string{"\nevent: ", string(topic), "\ndata: {\"topic\":\"", string(topic), "\",", rest, "\n\n"} {
		text = append(text, part...)
	}
	return text, nil
}
