package cli

import (
	"fmt"
	"os"
	"strings"

	"writ/cmd/writ/internal/redact"
	"writ/scripts/check"
)

// Annotate writes the diagnostics as annotations, which GitHub shows beside the lines of a file.
func Annotate(env *Env, report check.Report) {
	for _, d := range report.Diagnostics {
		text := d.Message
		if d.Help != "" {
			text += " (" + d.Help + ")"
		}
		Annotation(env, string(d.Severity), d.Code, text, "file", d.File, "line", d.Line, "col", d.Column, "endColumn",
			d.Column+d.Width)
	}
}

// Annotation writes one annotation. about holds its location as pairs of property and value.
func Annotation(env *Env, severity, title, text string, about ...any) {
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	var properties []string
	for i := 0; i+1 < len(about); i += 2 {
		properties = append(properties, fmt.Sprintf("%v=%s", about[i], property.Replace(fmt.Sprint(about[i+1]))))
	}
	properties = append(properties, "title="+property.Replace(title))
	env.Command(fmt.Sprintf("::%s %s::%s", severity, strings.Join(properties, ","), message.Replace(redact.Text(text))))
}

// OnGitHub reports whether the command runs in a GitHub workflow, which reads annotations.
func OnGitHub() bool { return os.Getenv("GITHUB_ACTIONS") == "true" }
