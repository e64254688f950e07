"""The way to a server: a proxy on a port that stays the same. It can be closed, cut, slow, and it counts bytes."""

import queue
import socket
import threading
import time


class Gate(threading.Thread):
    """A proxy to an address of a server. `delay_s` is the time that bytes are under way, in each direction."""

    def __init__(self, find_address, delay_s=0.0):
        super().__init__(daemon=True)
        self.find_address = find_address
        self.delay_s = delay_s
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.is_open = True
        # The number of bytes from the server after which the connections are cut, or None.
        self.bytes_left = None
        # The number of bytes that the server has sent.
        self.bytes_sent = 0
        self.sockets = []
        self.start()

    def run(self):
        while True:
            client, _ = self.listener.accept()
            try:
                if not self.is_open:
                    raise OSError("the gate is closed")
                there = socket.create_connection(self.find_address(), timeout=5)
            except (OSError, KeyError):
                client.close()
                continue
            there.settimeout(None)
            self.sockets += [client, there]
            for pair in ((client, there, False), (there, client, True)):
                threading.Thread(target=self.copy, args=pair, daemon=True).start()

    def copy(self, source, target, is_reply):
        """Copies bytes until one side closes, or the connection is cut."""
        send = self.delayed(target) if self.delay_s else target.sendall
        try:
            while True:
                piece = source.recv(65_536)
                if not piece:
                    break
                if is_reply:
                    if self.bytes_left is not None:
                        piece = piece[:self.bytes_left]
                        self.bytes_left -= len(piece)
                    self.bytes_sent += len(piece)
                send(piece)
                if self.bytes_left == 0:
                    self.cut()
        except OSError:
            pass
        for end in (source, target):
            shut(end)

    def delayed(self, target):
        """Starts a thread that sends each piece when its time has passed. Returns the function that takes pieces."""
        pieces = queue.SimpleQueue()

        def send_late():
            try:
                while True:
                    due, piece = pieces.get()
                    time.sleep(max(0.0, due - time.monotonic()))
                    target.sendall(piece)
            except OSError:
                pass

        threading.Thread(target=send_late, daemon=True).start()
        return lambda piece: pieces.put((time.monotonic() + self.delay_s, piece))

    def cut(self):
        """Cuts all connections."""
        self.bytes_left = None
        for end in self.sockets:
            shut(end)
        self.sockets = []


def shut(end):
    """Closes both directions of a socket."""
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
