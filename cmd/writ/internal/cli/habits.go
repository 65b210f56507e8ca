package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const listHint = "use `writ resource list`, `writ run list` or `writ node list`"

// Habits maps command lines of other tools to hints.
var Habits = map[string]string{
	"writ apply":    "`writ submit FILE` signs a script and runs it",
	"writ deploy":   "`writ submit FILE` signs a script and runs it",
	"writ up":       "`writ submit FILE --deployment NAME` signs a script and runs it",
	"writ down":     "`writ deployment destroy NAME` deletes all resources of a deployment",
	"writ rollback": "`writ deployment rollback NAME` runs an earlier revision again",
	"writ history":  "`writ deployment history NAME` lists the revisions",
	"writ job":      "`writ deployment list` lists deployments, and `writ submit FILE --deployment NAME` changes one",
	"writ alloc":    "`writ resource list` lists containers, and `writ logs container/NAME` prints a log",
	"writ create":   "`writ submit FILE` signs a script and runs it",
	"writ validate": "`writ check FILE` checks a script",
	"writ lint":     "`writ check FILE` checks a script",
	"writ diff":     "`writ plan FILE` previews a script",
	"writ preview":  "`writ plan FILE` previews a script",
	"writ delete":   "a script deletes resources: `writ explain volume.delete` shows an example, and `writ submit FILE --destructive` runs it",
	"writ destroy":  "`writ deployment destroy NAME` deletes all resources of a deployment; a script deletes single resources: `writ explain volume.delete`",
	"writ get":      listHint,
	"writ list":     listHint,
	"writ ls":       listHint,
	"writ ps":       listHint,
	"writ describe": "use `writ resource show KIND/NAME`, `writ run show RUN` or `writ node show NODE`",
	"writ config":   "`writ context list` lists the clusters that commands can use",

	"writ secret get":  "no command prints the value of a secret: `writ secret list` lists names and versions",
	"writ secret show": "no command prints the value of a secret: `writ secret list` lists names and versions",
	"writ secret read": "no command prints the value of a secret: `writ secret list` lists names and versions",
}

// sameWords maps words of other tools to subcommands of writ, the best first.
var sameWords = map[string][]string{
	"get": {"show", "list"}, "describe": {"show", "list"}, "inspect": {"show", "list"}, "info": {"show", "list"},
	"status": {"show", "list"}, "ls": {"list"}, "rm": {"remove", "revoke", "destroy"}, "delete": {"remove", "revoke", "destroy"},
	"del": {"remove", "revoke", "destroy"}, "destroy": {"remove", "revoke"}, "new": {"create", "add"}, "make": {"create", "add"},
	"create": {"add", "set"}, "add": {"create", "set"}, "update": {"set"}, "edit": {"set"}, "stop": {"cancel"},
	"kill": {"cancel"}, "abort": {"cancel"}, "retry": {"resume"}, "restart": {"resume"},
}

// resourceWords lists kinds of resources. Other tools have them as commands.
var resourceWords = []string{"machine", "container", "volume", "image", "network", "herodb"}

// habitHint returns the hint for a command line of another tool, or "".
func habitHint(cmd *cobra.Command, word string) string {
	line := cmd.CommandPath() + " " + word
	if hint := Habits[line]; hint != "" {
		return hint
	}
	if kind := strings.TrimSuffix(word, "s"); !cmd.HasParent() && slices.Contains(resourceWords, kind) {
		return "`writ resource list --kind " + kind + "` lists them, and a script changes them"
	}
	if line == "writ run "+word && strings.HasSuffix(word, ".tengo") {
		return "`writ submit " + word + "` signs a script and runs it"
	}
	for _, name := range sameWords[word] {
		if known, rest, err := cmd.Find([]string{name}); err == nil && known != cmd && len(rest) == 0 {
			return "did you mean `" + known.CommandPath() + "`?"
		}
	}
	return ""
}

// otherOrder returns the hint for a command with its words in the order of another tool: "node n1 show" or
// "show node n1". It returns "" for other commands.
func otherOrder(cmd *cobra.Command, args []string) string {
	if len(args) < 2 {
		return ""
	}
	if c := subcommand(cmd, args[1]); c != nil && cmd.HasParent() {
		return "did you mean `" + c.CommandPath() + " " + ShellWord(args[0]) + "`?"
	}
	group := subcommand(cmd, args[1])
	if group == nil {
		group = subcommand(cmd, strings.TrimSuffix(args[1], "s"))
	}
	if group == nil {
		return ""
	}
	if c := subcommand(group, args[0]); c != nil {
		return "did you mean `" + c.CommandPath() + "`?"
	}
	return ""
}

// subcommand returns the visible subcommand with a name, or nil.
func subcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name && c.IsAvailableCommand() {
			return c
		}
	}
	return nil
}

// sameFlags maps flags of other tools to a flag of writ, with the text to type.
var sameFlags = map[string]struct{ flag, typed string }{
	"json": {"output", "-o json"}, "yaml": {"output", "-o yaml"}, "format": {"output", "-o json"},
	"namespace": {"project", "--project NAME"}, "datacenter": {"dc", "--dc NAME"},
	"region": {"select", "--select region=NAME"},
	"var":    {"param", "-p NAME=VALUE"}, "set": {"param", "-p NAME=VALUE"}, "var-file": {"params", "--params FILE"},
	"values": {"params", "--params FILE"}, "force": {"yes", "--yes"}, "auto-approve": {"yes", "--yes"},
	"tail": {"follow", "--follow"}, "detailed-exitcode": {"exit-code", "--exit-code"},
}

// flagHabit returns the hint for a flag of another tool, or "".
func flagHabit(cmd *cobra.Command, unknown string) string {
	switch {
	case unknown == "value" && cmd.CommandPath() == "writ secret set":
		return "pass the value on standard input, in a file or at the prompt: a process list would show an argument (writ secret set --help)"
	case len(unknown) == 1 && cmd.Flags().ShorthandLookup(unknown) != nil:
		return fmt.Sprintf("did you mean -%s? (%s --help)", unknown, cmd.CommandPath())
	case unknown == "dry-run" && cmd.Flag("plan") != nil:
		return "`writ plan FILE` previews a script"
	}
	if same := sameFlags[unknown]; same.flag != "" && cmd.Flag(same.flag) != nil {
		return fmt.Sprintf("did you mean %s? (%s --help)", same.typed, cmd.CommandPath())
	}
	return ""
}

// usageHint returns the hint for wrong arguments: an example of the command, and its help.
func usageHint(cmd *cobra.Command) string {
	for line := range strings.SplitSeq(cmd.Example, "\n") {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "  #")
		if strings.HasPrefix(line, cmd.CommandPath()+" ") && !strings.HasSuffix(line, `\`) && !strings.Contains(line, "`") {
			return "for example `" + strings.TrimSpace(line) + "` (" + cmd.CommandPath() + " --help)"
		}
	}
	return cmd.CommandPath() + " --help"
}
