package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"writ"
)

// Service is a program of the image that runs all the time, such as containerd.
type Service struct {
	Name    string   `json:"name"`
	Command []string `json:"command"` // path of the program, then arguments
	// Socket is the Unix socket that accepts connections when the service is ready. If "", the service is ready at once.
	Socket string `json:"socket,omitempty"`
}

// ServicesAt is the file of the image that lists its services as JSON, in start order.
const ServicesAt = "/etc/writ/services.json"

// maxServices limits the services, and therefore the duration of a start if no service becomes ready.
const maxServices = 16

// Delays before an exited program is restarted.
const (
	restartFirst = time.Second
	restartMost  = 30 * time.Second
	wellAfter    = time.Minute // a program that ran this long did not fail at its start
)

// pause returns the delay before a program restarts. `before` is the previous delay, and `lived` is how long the
// program ran.
func pause(before, lived time.Duration) time.Duration {
	if lived > wellAfter {
		return restartFirst
	}
	return min(max(2*before, restartFirst), restartMost)
}

// CheckServices validates a list of services. programs lists the paths of the image's programs.
func CheckServices(services []Service, programs []string) error {
	if len(services) > maxServices {
		return writ.Errorf(writ.CodeUsage, "%d services exceed the limit of %d", len(services), maxServices)
	}
	for i, s := range services {
		if err := s.check(programs); err != nil {
			return err
		}
		if slices.ContainsFunc(services[:i], func(other Service) bool { return other.Name == s.Name }) {
			return writ.Errorf(writ.CodeUsage, "duplicate service %s", s.Name).WithHint("give each a unique name")
		}
	}
	return nil
}

func (s *Service) check(programs []string) error {
	switch {
	case !writ.ValidName(s.Name):
		return writ.Errorf(writ.CodeUsage, "a service has the name %q", s.Name).
			WithHint("use 1 to 63 lower-case letters, digits and hyphens")
	case s.Name == "runner":
		return writ.Errorf(writ.CodeUsage, "the service name runner is reserved").
			WithHint("the image starts `writ runner` by itself; give the service another name")
	case s.Name == sourceBoot || s.Name == sourceKernel:
		return writ.Errorf(writ.CodeUsage, "a service has the name %s", s.Name).
			WithHint("a log of the machine has this name; give the service another name")
	case len(s.Command) == 0 || !slices.Contains(programs, s.Command[0]):
		return writ.Errorf(writ.CodeUsage, "the service %s has the command %q, but the image has no such program",
			s.Name, strings.Join(s.Command, " ")).
			WithHint("begin the command with the path that a program has in the image: /usr/bin/containerd")
	case s.Socket != "" && (path.Clean(s.Socket) != s.Socket || !strings.HasPrefix(s.Socket, "/run/")):
		return writ.Errorf(writ.CodeUsage, "the service %s has the socket %q", s.Name, s.Socket).
			WithHint("use a path below /run: /run/containerd/containerd.sock")
	}
	return nil
}

// readServices reads the services of the image. The file may be missing.
func readServices(file string) (services []Service, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &services)
	}
	if err != nil {
		return nil, fmt.Errorf("read the services of the image: %w", err)
	}
	return services, nil
}
