package herodb

import (
	"bufio"
	"context"
	"net"
	"path/filepath"
	"strconv"

	"writ/internal/netns"
)

// instance is the state of a database that the functions of an engine need.
type instance struct {
	engine  engine
	own     own
	access  access
	dir     string // databases/NAME
	tree    string // directory of its data
	process pid    // zero if no process serves it
}

// path returns the path of a file of the database.
func (in instance) path(name string) string { return filepath.Join(in.dir, name) }

// dial connects the driver to the process of a database and logs in.
func (in instance) dial(ctx context.Context) (*client, error) {
	var conn net.Conn
	namespace := ""
	if in.own.Device != "" {
		namespace = namespaceOf(in.process)
	}
	err := inside(namespace, func() (err error) {
		d := net.Dialer{Timeout: answerTime}
		conn, err = d.DialContext(ctx, "tcp", net.JoinHostPort(in.own.Host, strconv.FormatInt(in.own.Port, 10)))
		return err
	})
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, r: bufio.NewReader(conn)}
	if in.engine.login == nil {
		return c, nil
	}
	if _, err := c.ask(ctx, append([]string{"AUTH"}, in.engine.login(in.access)...)...); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// inside calls `do` in a network namespace; an empty path means the namespace of this process.
func inside(namespace string, do func() error) error {
	if namespace == "" {
		return do()
	}
	leave, err := netns.Enter(namespace)
	if err != nil {
		return err
	}
	defer leave()
	return do()
}

// seeLog returns a hint, or the end of a hint, that names the log file. If the creation of a database fails, its log is
// deleted.
func (in instance) seeLog() string {
	if in.own.Phase == making {
		return "the database was removed; the message has the last output of its process"
	}
	return "its log on the node is " + in.path(logName)
}
