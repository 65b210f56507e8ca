package boot

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"writ/internal/lazyregexp"
	"writ/internal/logring"
)

// Log sources other than services. The runner keeps its own log.
const (
	sourceBoot   = "boot"
	sourceKernel = "kernel"
)

// logs stores the output of the first process, the kernel and the services in files that the runner reads. Each source
// has its own ring, so a verbose source displaces no other. Lines wait in memory until the data disk is mounted.
type logs struct {
	redact func(text string) string
	boot   string // the kernel's boot id

	mu      sync.Mutex
	rings   map[string]*logring.Ring
	dir     string // "" before the disk is mounted
	running context.Context
	stop    context.CancelFunc
	writing sync.WaitGroup
}

func newLogs(redact func(text string) string) *logs {
	l := &logs{redact: redact, rings: map[string]*logring.Ring{}}
	l.running, l.stop = context.WithCancel(context.Background())
	return l
}

// add appends a line of a source.
func (l *logs) add(source, level, text string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.boot == "" {
		l.boot = logring.Boot() // /proc is mounted by now
	}
	ring := l.rings[source]
	if ring == nil {
		ring = logring.New()
		l.rings[source] = ring
		l.write(source, ring)
	}
	ring.Add(logring.Line{Time: at, Boot: l.boot, Level: level, Text: l.redact(text)})
}

// write starts writing a ring to its file, if the disk is mounted. The caller holds mu.
func (l *logs) write(source string, ring *logring.Ring) {
	if l.dir == "" || l.running.Err() != nil {
		return
	}
	file := logring.File(l.dir, source)
	// A failure could only be shown on the consoles, which have the lines anyway.
	l.writing.Go(func() { _ = ring.Run(l.running, file) })
}

// begin starts writing all rings to dir on the data disk.
func (l *logs) begin(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the logs: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dir = dir
	for source, ring := range l.rings {
		l.write(source, ring)
	}
	return nil
}

// end flushes all rings and closes their files.
func (l *logs) end() {
	l.mu.Lock()
	l.stop()
	l.mu.Unlock()
	l.writing.Wait()
}

// stage stores a line of a stage.
func (l *logs) stage(name, text string) {
	level := "info"
	switch {
	case strings.HasPrefix(text, "error: "):
		level = "error"
	case strings.Contains(text, "ended with "): // a program ended unexpectedly
		level = "warn"
	}
	l.add(sourceBoot, level, name+": "+text, time.Now())
}

// service stores a line of a service.
func (l *logs) service(name, line string) { l.add(name, levelOf(line), line, time.Now()) }

// runner stores output of the runner that bypassed its log, such as a panic.
func (l *logs) runner(line string) {
	if !strings.HasPrefix(line, "time=") && line != "" {
		l.add(sourceBoot, "error", "runner: "+line, time.Now())
	}
}

// levelPattern matches the level in the usual log formats of Go and Rust programs: level=warning, "level":"warn", or
// WARN after the time.
var levelPattern = lazyregexp.New(`\blevel"?[=:] ?"?(\w+)|^.{0,40}?\b(TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b`)

// levelOf returns the level of a line of a service, "info" if the line has no level.
func levelOf(line string) string {
	found := levelPattern.FindStringSubmatch(line)
	if found == nil {
		return "info"
	}
	switch strings.ToLower(found[1] + found[2]) {
	case "trace", "debug":
		return "debug"
	case "warn", "warning":
		return "warn"
	case "error", "fatal", "panic":
		return "error"
	}
	return "info"
}

// parseKernel parses a record of /dev/kmsg, such as "4,1234,5678901,-;text", which may have further lines. ok is false
// if the record is malformed or its level is below warning. `after` is the uptime at which the record was written.
func parseKernel(record string) (level, text string, after time.Duration, ok bool) {
	head, rest, found := strings.Cut(record, ";")
	fields := strings.Split(head, ",")
	if !found || len(fields) < 3 {
		return "", "", 0, false
	}
	priority, err := strconv.ParseUint(fields[0], 10, 32)
	micros, wrong := strconv.ParseInt(fields[2], 10, 64)
	text, _, _ = strings.Cut(rest, "\n")
	switch priority &= 7; {
	case err != nil || wrong != nil || priority > 4:
		return "", "", 0, false
	case priority == 4:
		level = "warn"
	default:
		level = "error"
	}
	return level, text, time.Duration(micros) * time.Microsecond, true
}
