package cli

import (
	"cmp"
	"log/slog"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/redact"
	"writ/cmd/writ/internal/terminal"
	"writ/internal/hidden"
	"writ/internal/meant"
	"writ/internal/tracing"
)

// LogFlags holds the flags for the log of a daemon.
type LogFlags struct {
	Level  string
	Format string
}

// Add adds the flags to a command. level is the default level.
func (l *LogFlags) Add(c *cobra.Command, level string) {
	f := c.Flags()
	f.StringVar(&l.Level, "log-level", level, "debug, info, warn or error")
	f.StringVar(&l.Format, "log-format", "text", "text or json")
	FromEnvironment(f, "log-level", "log-format")
	Complete(c, "log-level", logLevels...)
	OneOf(c, "log-format", "text", "json")
}

var logLevels = []string{"debug", "info", "warn", "error"}

// NewLog returns the logger of a daemon, which writes to standard error.
func NewLog(env *Env, l LogFlags) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "--log-level: unknown level %q", l.Level).
			WithHint("%s", cmp.Or(meant.Question(l.Level, logLevels), "use debug, info, warn or error"))
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: redact.Attr}
	switch l.Format {
	case "text":
		return slog.New(slog.NewTextHandler(hidden.Writer(env.Err,
			func(line []byte) []byte { return []byte(hidden.EscapeText(string(line))) }), options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(hidden.Writer(env.Err, hidden.EscapeJSON), options)), nil
	default:
		return nil, writ.Errorf(writ.CodeUsage, "--log-format: unknown format %q", l.Format).WithHint("use text or json")
	}
}

// TracesFlags adds the flags of the trace exporter.
func TracesFlags(c *cobra.Command, s *tracing.Settings) {
	f := c.Flags()
	f.StringVar(&s.URL, "traces", "",
		"address of a collector for traces by OTLP over HTTP, such as http://127.0.0.1:4318. If unset, tracing is off")
	f.Float64Var(&s.Ratio, "trace-ratio", 1,
		"fraction of traced runs, chosen by their ids: 0.01 traces one run in a hundred")
	InRange(f, "trace-ratio", &s.Ratio, 0, 1)
	FromEnvironment(f, "traces", "trace-ratio")
}

// DataFlag adds the flag for a data directory.
func DataFlag(c *cobra.Command, data *string) {
	c.Flags().StringVar(data, "data", config.DefaultData(), "directory for all persistent data")
	FromEnvironment(c.Flags(), "data")
}

// ShowsTokens returns an error for output formats that would omit a new token, because a token is shown only once.
func ShowsTokens(env *Env) error {
	if env.Structured() || env.Format == terminal.Table || env.Format == terminal.Wide {
		return nil
	}
	return terminal.BadFormat(env.Format, "-o table", "-o json", "-o yaml")
}
