package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/scripts"
)

// release is set by the linker in a release build: -ldflags "-X main.release=v1.2.3".
var release string

// version returns the version of the release, or the version that the Go tool has recorded for a build from source.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}

type versionView struct {
	Version string   `json:"version"`
	Go      string   `json:"go"`
	OS      string   `json:"os"`
	Arch    string   `json:"arch"`
	Engines []string `json:"engines"`
}

func versionCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version and the supported script engines",
		Example: "  writ version",
		Args:    cli.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			v := versionView{version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, scripts.Engines()}
			return env.Print(terminal.Record(v, v.Version,
				terminal.Field{Title: "writ", Value: v.Version},
				terminal.Field{Title: "engines", Value: fmt.Sprint(v.Engines)},
				terminal.Field{Title: "built with", Value: v.Go + " for " + v.OS + "/" + v.Arch}))
		},
	}
}
