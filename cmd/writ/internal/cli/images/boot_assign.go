package images

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/daemon/bootd"
	"writ/cmd/writ/internal/redact"
	"writ/efi/bootserver"
)

func bootAssignCommand(env *cli.Env) *cobra.Command {
	var file string
	var none bool
	var machine machineFlags
	c := &cobra.Command{
		Use:   "assign MACHINE --machines FILE",
		Short: "Set the settings of one machine, such as name and address",
		Long: `Writes the settings of one machine to the file of "writ boot serve --machines". MACHINE is the address of
its network card, such as 52:54:00:77:00:50, or its serial number, such as serial=SN-0001. From its next start the
machine gets these settings in addition to the common ones. They replace its earlier settings. "writ boot list"
shows whether the machine uses them.

The file has one line per machine and comments after #. You may edit it. The server reloads the file when it
changes.

Settings are unsigned, and every client in the network can read them. So the command rejects tokens. Settings grant
no rights. A datacenter admits a machine by its key, its token or its serial number, and "writ node label" sets the
labels of a node.`,
		Example: "  writ boot assign 52:54:00:77:00:50 --machines machines --name n1 --setting writ.address=10.77.0.4/24 --setting writ.gateway=10.77.0.1\n" +
			"  writ boot assign serial=SN-0001 --machines machines --name n2\n" +
			"  writ boot assign serial=SN-0001 --machines machines --none",
		Args: cli.Exactly("MACHINE"),
		RunE: func(_ *cobra.Command, args []string) error {
			to, err := bootserver.AssignedTo(args[0])
			if err != nil {
				return err
			}
			words, err := machine.words()
			switch {
			case err != nil:
				return err
			case none && len(words) > 0:
				return writ.Errorf(writ.CodeUsage, "--none removes all settings, but other settings are given").
					WithHint("give either --none or settings")
			case !none && len(words) == 0:
				return writ.Errorf(writ.CodeUsage, "no setting is given").
					WithHint("use --name, --setting or another flag; --none removes the current settings")
			}
			if err := assign(file, to, words); err != nil {
				return err
			}
			if none {
				env.Done("%s has no settings of its own", to)
				return nil
			}
			env.Done("%s gets %s at its next start", to, strings.Join(words, " "))
			return nil
		},
	}
	c.Flags().StringVar(&file, "machines", "", "file of `writ boot serve --machines`")
	c.Flags().BoolVar(&none, "none", false, "remove the settings of the machine")
	machine.add(c)
	_ = c.MarkFlagRequired("machines")
	return c
}

// assign changes the settings of a machine in a file. It replaces the file atomically.
func assign(file, machine string, words []string) error {
	text, err := bootd.ReadAssignments(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return writ.Errorf(writ.CodeUsage, "read --machines: %v", err)
	}
	text = bootserver.Assign(text, machine, words)
	if _, err := bootserver.ParseAssignments(text, checkAssigned); err != nil {
		return err
	}
	return writeImage("machines", file, 0o644, []byte(text))
}

// checkAssigned rejects settings that a machine cannot use, that are secret, or that the boot server sets itself.
func checkAssigned(words []string) error {
	m := machineFlags{more: words}
	for _, word := range words {
		switch name, value, _ := strings.Cut(word, "="); {
		case redact.Holds(word):
			return cli.HoldsSecret("the setting " + name)
		case name == "writ.boot":
			return writ.Errorf(writ.CodeUsage, "the boot server sets %s itself", name).WithHint("leave it out")
		case name == "writ.supervisor":
			if err := checkAddresses("supervisor", value, "https"); err != nil {
				return err
			}
		case name == "writ.redis":
			if err := checkAddresses("redis", value, "rediss"); err != nil {
				return err
			}
		}
	}
	_, err := m.words()
	return err
}
