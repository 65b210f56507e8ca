package main

import (
	"cmp"
	"log/slog"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/redact"
	"writ/internal/hidden"
	"writ/internal/meant"
)

// logFlags holds the flags for the log of a daemon.
type logFlags struct {
	level  string
	format string
}

func (l *logFlags) add(c *cobra.Command, level string) {
	f := c.Flags()
	f.StringVar(&l.level, "log-level", level, "debug, info, warn or error")
	f.StringVar(&l.format, "log-format", "text", "text or json")
	fromEnvironment(f, "log-level", "log-format")
	complete(c, "log-level", logLevels...)
	oneOf(c, "log-format", "text", "json")
}

var logLevels = []string{"debug", "info", "warn", "error"}

// log returns the logger of a daemon, which writes to standard error.
func (a *app) log(l logFlags) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "--log-level: unknown level %q", l.level).WithHint("%s", cmp.Or(meant.Question(l.level, logLevels), "use debug, info, warn or error"))
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: redact.Attr}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(hidden.Writer(a.Err, func(line []byte) []byte { return []byte(hidden.EscapeText(string(line))) }), options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(hidden.Writer(a.Err, hidden.EscapeJSON), options)), nil
	default:
		return nil, writ.Errorf(writ.CodeUsage, "--log-format: unknown format %q", l.format).WithHint("use text or json")
	}
}
