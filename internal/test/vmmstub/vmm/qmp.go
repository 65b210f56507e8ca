package vmm

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// qmp is a connection to QEMU: one command at a time, and events in between.
type qmp struct {
	conn    net.Conn
	answers chan qmpMessage // closed when QEMU has ended
	events  func(name string, data map[string]any)

	mu sync.Mutex
}

// qmpMessage is one line from QEMU.
type qmpMessage struct {
	Event  string          `json:"event"`
	Data   map[string]any  `json:"data"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Desc string `json:"desc"`
	} `json:"error"`
}

var errNoQEMU = errors.New("QEMU is gone")

// listen reads messages until QEMU has ended.
func (q *qmp) listen() {
	defer close(q.answers)
	for d := json.NewDecoder(q.conn); ; {
		var m qmpMessage
		if err := d.Decode(&m); err != nil {
			return
		}
		switch {
		case m.Event != "":
			q.events(m.Event, m.Data)
		case m.Return != nil || m.Error != nil:
			q.answers <- m
		}
	}
}

// ask sends a command and decodes the result, unless `into` is nil.
func (q *qmp) ask(command string, arguments map[string]any, into any) error {
	return q.askWith(nil, command, arguments, into)
}

// askWith works like ask, and passes a file to QEMU.
func (q *qmp) askWith(file *os.File, command string, arguments map[string]any, into any) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	message := map[string]any{"execute": command}
	if arguments != nil {
		message["arguments"] = arguments
	}
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if err := send(q.conn, text, file); err != nil {
		return errNoQEMU
	}
	answer, ok := <-q.answers
	switch {
	case !ok:
		return errNoQEMU
	case answer.Error != nil:
		return fmt.Errorf("QEMU refuses %s: %s", command, answer.Error.Desc)
	case into == nil:
		return nil
	}
	return json.Unmarshal(answer.Return, into)
}

// until polls a status until `done` reports true or an error.
func (q *qmp) until(command string, done func(status string) (bool, error)) error {
	for {
		var answer struct {
			Status string `json:"status"`
			Reason string `json:"error-desc"`
		}
		if err := q.ask(command, nil, &answer); err != nil {
			return err
		}
		switch finished, err := done(answer.Status); {
		case err != nil:
			return fmt.Errorf("%w: %s", err, answer.Reason)
		case finished:
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}
