package daemons

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/coord/webhook"
	"writ/internal/meant"
)

func webhookCommand(env *cli.Env) *cobra.Command {
	return cli.Family("webhook", "Test the webhooks of a coordinator", webhookTestCommand(env))
}

func webhookTestCommand(env *cli.Env) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "test [NAME]",
		Short: "Send one message of the type test to webhooks",
		Long: `Reads the file of "writ coord --webhooks", and sends a message of the type test to the named webhook or to
all. It reports for each webhook whether the receiver accepted the message. It does not retry.`,
		Example: "  writ webhook test --webhooks webhooks.yaml\n  writ webhook test chat-ops --webhooks webhooks.yaml",
		Args:    cli.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			endpoints, err := webhook.Read(file)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				i := slices.IndexFunc(endpoints, func(e webhook.Endpoint) bool { return e.Name == args[0] })
				if i < 0 {
					return writ.Errorf(writ.CodeNotFound, "%s contains no webhook %q", file, args[0]).
						WithHint("%s",
							meant.Among(args[0], endpoints, func(e webhook.Endpoint) string { return e.Name },
								"leave the name out to try all"))
				}
				endpoints = endpoints[i : i+1]
			}
			sender := &webhook.Sender{Version: env.Version, Now: time.Now}
			var failed []error
			for i := range endpoints {
				name := endpoints[i].Name
				if err := sender.SendTest(cmd.Context(), &endpoints[i]); err != nil {
					failed = append(failed,
						writ.Errorf(writ.CodeUnreachable, "the webhook %s did not accept the message: %v", name, err).
							WithHint("compare the address, the secret and the certificate with the settings of the receiver"))
					continue
				}
				env.Done("%s accepted the message", name)
			}
			if len(failed) == 1 {
				return failed[0]
			}
			return errors.Join(failed...)
		},
	}
	c.Flags().StringVar(&file, "webhooks", "", "file with the settings")
	_ = c.MarkFlagRequired("webhooks")
	return c
}
