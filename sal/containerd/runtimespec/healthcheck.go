package runtimespec

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"

	"writ"
)

// HealthCommand returns the command of the HEALTHCHECK of an image. The times of that instruction are not used. The
// error is ARGUMENTS_INVALID if the image has no usable health check.
func HealthCommand(ctx context.Context, image client.Image) ([]string, error) {
	described, err := image.Config(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the config of the image: %w", err)
	}
	text, err := content.ReadBlob(ctx, image.ContentStore(), described)
	if err != nil {
		return nil, fmt.Errorf("read the config of the image: %w", err)
	}
	return healthCommand(text)
}

// healthCommand is HealthCommand for the JSON text of a config. The fields are Docker's; the OCI image format has no
// health checks.
func healthCommand(text []byte) ([]string, error) {
	var described struct {
		Config struct {
			Healthcheck struct{ Test []string }
			Shell       []string // of the form CMD-SHELL
		} `json:"config"`
	}
	if err := json.Unmarshal(text, &described); err != nil {
		return nil, noHealthCheck("its config is invalid: " + err.Error())
	}
	config := described.Config
	test := config.Healthcheck.Test
	kind := ""
	if len(test) > 0 {
		kind, test = test[0], test[1:]
	}
	switch {
	case kind == "" || kind == "NONE":
		return nil, noHealthCheck("it has no HEALTHCHECK")
	case kind == "CMD" && len(test) > 0 && test[0] != "":
	case kind == "CMD-SHELL" && len(test) == 1 && test[0] != "":
		shell := config.Shell
		if len(shell) == 0 {
			shell = []string{"/bin/sh", "-c"}
		}
		test = append(slices.Clone(shell), test...)
	default:
		return nil, noHealthCheck(fmt.Sprintf("its HEALTHCHECK has the unusable form %.40q", kind))
	}
	return test, CheckWords(test, nil)
}

func noHealthCheck(why string) error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "health.image needs an image with a HEALTHCHECK: %s", why).
		WithHint("replace health.image by http, tcp or command")
}
