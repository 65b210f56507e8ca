//go:build !failpoints

package failpoint

import (
	"context"
	"net"
	"os"
)

// At names the write or send that is done with a context.
func At(ctx context.Context, _ Point) context.Context { return ctx }

// Begin is called before the change or message that was named with At.
func Begin(context.Context) {}

// Amid is called when a change was made and is not committed. Its error undoes the change.
func Amid(context.Context) error { return nil }

// End is called when the change or message is on disk or sent, or err says that it is not, and before anybody is told.
func End(context.Context, error) {}

// Begin is that of the package, for what has no context.
func (Point) Begin() {}

// End is that of the package, for what has no context.
func (Point) End(error) {}

// Write writes a file, or adds to it.
func (Point) Write(f *os.File, text []byte) (int, error) { return f.Write(text) }

// OfFile returns the point of a file by its name.
func OfFile(string) Point { return "" }

// OfFrame returns the point of a message that is JSON and begins with its type.
func OfFrame([]byte) Point { return "" }

// Listener returns a listener whose connections can be torn.
func Listener(l net.Listener) net.Listener { return l }

// Dial makes connections; see Dialer.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer returns a way to connect so that the connections can be torn. The default of whoever dials is nil.
func Dialer(d Dial) Dial { return d }

// Step returns what drivers of a module call before every single change of their host.
func Step(string) func(name string) { return nil }
