package cli

import "github.com/spf13/cobra"

// Groups of commands on the first help page.
const (
	Everyday       = "everyday"
	Administration = "admin"
	Daemons        = "daemons"
)

// InGroup puts commands into a group of the first help page.
func InGroup(group string, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.GroupID = group
	}
	return commands
}
