// Package why explains why a run waits or has failed, and names the next command.
package why
