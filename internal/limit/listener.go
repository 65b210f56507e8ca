package limit

import "net"

// listener closes the connections that get no place.
type listener struct {
	net.Listener
	enter func(conn net.Conn) (leave func(), ok bool)
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if leave, ok := l.enter(conn); ok {
			return &placedConn{conn, leave}, nil
		}
		_ = conn.Close()
	}
}

// placedConn is a connection that holds a place while it is open.
type placedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *placedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
