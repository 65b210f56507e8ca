package vmm

import (
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"time"
)

// monitor reports events: to the log, and to the file of --event-monitor as indented objects separated by an empty
// line. Failed writes are ignored: the real program writes without blocking, and drops an event that it cannot write.
type monitor struct {
	log   *slog.Logger
	start time.Time

	mu   sync.Mutex
	file *os.File // nil without an event monitor
}

func (m *monitor) tell(source, event string, properties ...string) {
	m.log.Info("event", "source", source, "event", event, "properties", properties)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return
	}
	var pairs map[string]string
	for i := 0; i+1 < len(properties); i += 2 {
		if pairs == nil {
			pairs = map[string]string{}
		}
		pairs[properties[i]] = properties[i+1]
	}
	since := time.Since(m.start)
	text, err := json.MarshalIndent(struct {
		Timestamp  map[string]int64  `json:"timestamp"`
		Source     string            `json:"source"`
		Event      string            `json:"event"`
		Properties map[string]string `json:"properties"`
	}{map[string]int64{"secs": int64(since / time.Second), "nanos": int64(since % time.Second)}, source, event, pairs}, "",
		"  ")
	if err != nil {
		return
	}
	_, _ = m.file.Write(append(text, "\n\n"...))
}
