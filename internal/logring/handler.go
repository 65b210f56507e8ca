package logring

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
)

// Handler is a slog.Handler that adds log records to a ring.
type Handler struct {
	slog.Handler // formats a record into the buffer to.text
	to           *record
}

// record formats log records for the ring. A handler and the handlers derived from it share one record.
type record struct {
	ring *Ring
	boot string

	mu   sync.Mutex
	text bytes.Buffer
}

// NewHandler returns a handler for records at or above a level. boot identifies the boot of the machine. Attributes
// pass through replace, as in slog.HandlerOptions.
func NewHandler(
	ring *Ring, boot string, level slog.Level, replace func(groups []string, a slog.Attr) slog.Attr,
) *Handler {
	to := &record{ring: ring, boot: boot}
	return &Handler{slog.NewTextHandler(&to.text,
		&slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
				return slog.Attr{} // stored as fields of the line
			}
			return replace(groups, a)
		}}), to}
}

// Handle adds a record.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	h.to.mu.Lock()
	defer h.to.mu.Unlock()
	h.to.text.Reset()
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	h.to.ring.Add(Line{
		Time: r.Time, Boot: h.to.boot, Level: levelOf(r.Level), Text: strings.TrimSuffix(h.to.text.String(), "\n"),
	})
	return nil
}

// WithAttrs returns a handler with additional attributes.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.Handler.WithAttrs(attrs), h.to}
}

// WithGroup returns a handler with an attribute group.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.Handler.WithGroup(name), h.to}
}

// levelOf returns the name of a level.
func levelOf(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	case l >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}
