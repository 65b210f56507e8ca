//go:build !failpoints

package failpoint

import (
	"context"
	"net"
	"os"
)

// At names the write or send that is performed with a context.
func At(ctx context.Context, _ Point) context.Context { return ctx }

// Begin is called before the change or message named with At.
func Begin(context.Context) {}

// Amid is called after a change and before its commit. Its error rolls the change back.
func Amid(context.Context) error { return nil }

// End is called after the write or send, before its outcome err is reported.
func End(context.Context, error) {}

// Begin is like the function Begin, for code without a context.
func (Point) Begin() {}

// End is like the function End, for code without a context.
func (Point) End(error) {}

// Write writes to a file.
func (Point) Write(f *os.File, text []byte) (int, error) { return f.Write(text) }

// OfFile returns the point of a file name.
func OfFile(string) Point { return "" }

// OfFrame returns the point of a JSON message that starts with its type.
func OfFrame([]byte) Point { return "" }

// Listener returns a listener whose connections can be torn.
func Listener(l net.Listener) net.Listener { return l }

// Dial opens connections; see Dialer.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer returns a dial function whose connections can be torn. It returns nil for a nil Dial, and the caller then uses
// its default.
func Dialer(d Dial) Dial { return d }

// Step returns the function that drivers of a module call before each change of their host.
func Step(string) func(name string) { return nil }
