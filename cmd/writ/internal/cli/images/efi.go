package images

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/redact"
	"writ/cmd/writ/internal/terminal"
	"writ/efi/boot"
	"writ/efi/image"
	stages "writ/efi/progress"
	"writ/efi/recipe"
	"writ/internal/lazyregexp"
	"writ/runner"
	"writ/runner/member"
)

// AsInit returns the machine in which this program is the first process.
func AsInit(version string) *boot.Machine {
	return &boot.Machine{
		Version: version,
		Joined:  func() bool { return member.Joined(boot.DataAt) },
		Admission: func() boot.Admission {
			p := member.PlaceOf(boot.DataAt)
			return boot.Admission{State: p.Admission, Name: p.Name, Datacenter: p.Datacenter, Fingerprint: p.Fingerprint}
		},
		Redact: redact.Text,
		Means:  meaningOf,
		Runner: func(c boot.Config) []string {
			args := []string{
				"runner", "--data", boot.DataAt, "--supervisor", strings.Join(c.Supervisors, ","), "--redis", c.Redis,
			}
			for _, o := range [][2]string{
				{"--join", c.Join}, {"--cluster", c.Cluster}, {"--name", c.Name}, {"--drivers", c.Drivers},
				{"--image-allow", c.ImageAllow},
			} {
				if o[1] != "" {
					args = append(args, o[:]...)
				}
			}
			return args
		},
	}
}

// logLine matches a log line of a runner: its message, and the rest.
var logLine = lazyregexp.New(`^time=\S+ level=\S+ msg=("(?:[^"\\]|\\.)*"|\S+)(.*)$`)

// meaningOf translates a line of a runner's output into a report for the boot server.
func meaningOf(line string) (report stages.Report, ok bool) {
	if said, is := strings.CutPrefix(line, "error: "); is {
		return stages.Report{Stage: stages.StageRunner, Text: said, Failed: true}, true
	}
	if said, is := strings.CutPrefix(line, "hint: "); is { // belongs to the error before it
		return stages.Report{Stage: stages.StageRunner, Next: said, Failed: true}, true
	}
	found := logLine.FindStringSubmatch(line)
	if found == nil {
		return report, false
	}
	about, rest := unquoted(found[1]), found[2]
	settings, why, _ := strings.Cut(rest, " err=")
	switch about {
	case runner.LogServing, runner.LogQueue:
		return stages.Report{Stage: stages.StageJoined}, true
	case member.LogCannotJoin:
		_, pause, _ := strings.Cut(settings, " again=")
		return stages.Report{
			Stage: stages.StageRunner, Text: "cannot join yet, tries again in " + pause + ": " + unquoted(why), Failed: true,
			Next: "check that the supervisor runs, that its address is right, and that this network reaches it",
		}, true
	case runner.LogNoQueue:
		return stages.Report{
			Stage: stages.StageRunner, Text: "the node gets no work: " + unquoted(why), Failed: true,
			Next: "check that Redis runs, that its address is right, and that this network reaches it",
		}, true
	}
	return report, false
}

// unquoted returns a log value without its quotes, if it has any.
func unquoted(value string) string {
	if text, err := strconv.Unquote(value); err == nil {
		return text
	}
	return value
}

func efiCommand(env *cli.Env) *cobra.Command {
	return cli.Family("efi", "Create images that start machines as nodes", efiBuildCommand(env), efiDiskCommand(env),
		efiIPXECommand(env), efiRecipeCommand(env))
}

// builtImage is the output of `writ efi build`.
type builtImage struct {
	Image   string   `json:"image"`
	Bytes   int      `json:"bytes"`
	SHA256  string   `json:"sha256"`
	Bill    string   `json:"bill"` // path of the bill of materials
	Version string   `json:"version"`
	Kernel  string   `json:"kernel"`
	Packed  int      `json:"packed_bytes"`
	Seconds float64  `json:"seconds"`
	Lacking []string `json:"lacking,omitempty"`
	// Firmware lists files that modules may request and that are not in the image.
	Firmware []string `json:"firmware,omitempty"`
	// Loading lists programs and libraries that can load more libraries at run time. These may be missing in the image.
	Loading []string     `json:"loading,omitempty"`
	Files   []image.File `json:"files"`
}

func efiBuildCommand(env *cli.Env) *cobra.Command {
	var from efiSources
	var target string
	var everyMachine machineFlags
	parts := image.Recipe{}
	c := &cobra.Command{
		Use:   "build",
		Short: "Create a node image: kernel, modules and writ in one file",
		Long: `Creates a unified kernel image for UEFI firmware. It contains Linux, the required kernel modules, and writ
as the first process. The machine runs from memory. Equal inputs produce equal bytes.

The parts come from Debian packages. Download linux-image-VERSION-cloud-amd64 and systemd-boot-efi with apt-get,
which verifies them, and pass their directory as --packages. You need not install them. The directory may also
contain packages of firmware, of ca-certificates, and of programs with their libraries. "writ efi recipe cloud" and
"writ efi recipe metal" print the possible contents of an image.

Next to the image it writes IMAGE.cdx.json, a list of all components in CycloneDX format, and IMAGE.sha256.

--supervisor and --redis apply to every machine that starts from the image. The image contains no token: the
kernel's command line or a credential supplies it. A machine with --cluster and without a token waits for "writ node
approve", and shows the fingerprint of its key.`,
		Example: `  apt-get download linux-image-6.1.0-56-cloud-amd64 systemd-boot-efi
  writ efi build --packages . --program writ-node --supervisor https://10.77.0.3:7441 --redis rediss://10.77.0.3:6379/0
  writ efi build --kernel k/boot/vmlinuz-6.1.0-56-cloud-amd64 --modules k/lib/modules/6.1.0-56-cloud-amd64 --stub s/linuxx64.efi.stub --program writ-node`,
		Args: cli.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			began := time.Now()
			words, err := everyMachine.words()
			if err != nil {
				return err
			}
			parts.Settings = words
			if from.packages != "" {
				env.Note("unpacking the packages in %s", from.packages)
			}
			done, err := from.unpack()
			if err != nil {
				return err
			}
			defer done()
			if _, err := from.read(&parts); err != nil {
				return err
			}
			env.Note("packing and compressing %s, its modules and %s", filepath.Base(from.kernel),
				cli.Count(1+len(parts.Extra), "other file"))
			made, err := parts.Build()
			if err != nil {
				return err
			}
			if err := writeImage("image", target, 0o644, made.Data); err != nil {
				return err
			}
			if err := from.describe(target, &parts, made); err != nil {
				return err
			}
			return printImage(env, builtImage{
				Image: target, Bytes: len(made.Data), SHA256: made.Digest(), Bill: target + billEnd, Version: made.Version,
				Kernel: made.Kernel, Packed: made.Packed, Seconds: time.Since(began).Round(time.Millisecond).Seconds(),
				Lacking: made.Lacking, Firmware: made.Firmware, Loading: made.Loading, Files: made.Files,
			})
		},
	}
	f := c.Flags()
	f.StringVar(&target, "image", "writ-node.efi", "file to write")
	f.StringVar(&from.packages, "packages", "",
		"directory with the packages (.deb) of one kernel and of systemd-boot-efi, instead of --kernel, --modules and --stub")
	f.StringVar(&from.kernel, "kernel", "", "the kernel, boot/vmlinuz-VERSION of its package")
	f.StringVar(&from.modules, "modules", "", "the directory of its modules, lib/modules/VERSION of its package")
	f.StringVar(&from.stub, "stub", "", "linuxx64.efi.stub of systemd")
	f.StringVar(&from.program, "program", "", "statically linked writ for the image; this program if unset")
	f.StringVar(&parts.Cmdline, "cmdline", "",
		"command line of the kernel if the firmware passes none, instead of the recipe's")
	f.StringSliceVar(&parts.Names, "module", nil,
		"kernel module to include and load, in addition to the modules of the recipe (repeatable)")
	f.StringVar(&from.recipe, "recipe", "",
		"file with the recipe of the image; by default the recipe that fits the kernel")
	f.StringVar(&everyMachine.supervisor, "supervisor", "", "address of the supervisor's node API, https://HOST:7441")
	f.StringVar(&everyMachine.cluster, "cluster", "",
		"id of the cluster that a machine without a token trusts; the machine waits for approval")
	f.StringVar(&everyMachine.redis, "redis", "", "address of the datacenter's Redis, rediss://HOST:6379/0")
	return c
}

// writeImage replaces a file atomically. If it fails, the old file remains.
func writeImage(flag, target string, perm fs.FileMode, data []byte) error {
	if err := config.ReplaceFile(target, perm, data); err != nil {
		return writ.Errorf(writ.CodeUsage, "cannot write --%s: %v", flag, err)
	}
	return nil
}

func efiRecipeCommand(env *cli.Env) *cobra.Command {
	var packages string
	var schema bool
	c := &cobra.Command{
		Use:   "recipe " + strings.Join(recipe.Names(), "|"),
		Short: "Print the contents of an image: modules, firmware, certificates, programs",
		Long: `Prints a recipe. Without --recipe, "writ efi build" uses the recipe that fits the kernel. To change a
recipe, write it to a file.

With --packages it also pins each package in a directory: its version and the SHA-256 of its file. A build then
rejects other packages.

With --schema and without a recipe it prints the JSON Schema of recipes, for editors.`,
		Example: "  writ efi recipe metal --packages . > node.yaml\n  writ efi build --packages . --program writ-node --recipe node.yaml\n  writ efi recipe --schema > recipe.schema.json",
		Args: func(cmd *cobra.Command, args []string) error {
			if schema {
				return cli.Exactly()(cmd, args)
			}
			return cli.Exactly("RECIPE")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if schema {
				_, err := io.WriteString(env.Out, recipe.Schema)
				return err
			}
			text, err := recipe.Text(args[0])
			if err != nil {
				return err
			}
			if packages != "" {
				pins, err := pinsOf(packages)
				if err != nil {
					return err
				}
				text += recipe.PinText(pins)
			}
			_, err = io.WriteString(env.Out, text)
			return err
		},
	}
	c.ValidArgs = recipe.Names()
	c.Flags().StringVar(&packages, "packages", "", "directory of packages to pin")
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of recipes")
	c.MarkFlagsMutuallyExclusive("packages", "schema")
	return c
}

// pinsOf returns the name, version and digest of each package in a directory.
func pinsOf(packages string) (pins []recipe.Pin, err error) {
	dir, err := os.MkdirTemp("", "writ-efi-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the packages: %w", err)
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	all, err := unpackPackages(packages, root, func(string) bool { return false })
	for _, p := range all {
		pins = append(pins, p.pin())
	}
	return pins, err
}

func printImage(env *cli.Env, b builtImage) error {
	mib := func(n int) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
	total, largest := 0, strings.Builder{}
	for _, f := range b.Files {
		total += f.Size
		fmt.Fprintf(&largest, "%12d  /%s\n", f.Size, f.Name)
	}
	return env.Print(terminal.View{Data: b, Names: []string{b.Image}, Text: func(wide bool) string {
		text := terminal.Fields([]terminal.Field{
			{Title: "image", Value: b.Image + ", " + mib(b.Bytes)},
			{Title: "sha256", Value: b.SHA256},
			{Title: "components", Value: b.Bill},
			{Title: "version", Value: b.Version},
			{Title: "kernel", Value: b.Kernel},
			{Title: "files", Value: fmt.Sprintf("%d, %s in memory, %s in the image", len(b.Files), mib(total), mib(b.Packed))},
			{Title: "not in this kernel", Value: strings.Join(b.Lacking, " "), Wide: true},
			{Title: "firmware of devices, not in the image", Value: strings.Join(b.Firmware, " "), Wide: true},
			{Title: "may load more libraries", Value: strings.Join(b.Loading, " "), Wide: true},
			{Title: "time", Value: fmt.Sprintf("%.1f s", b.Seconds)},
		}, wide)
		return text + "\n" + largest.String()
	}})
}
