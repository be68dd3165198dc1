"""The loop of one keeper: agent, tape, clients and time, each served without waiting for another."""

from __future__ import annotations

import os
import select
import signal
import time

from scrubjay.keeper.answers import Answers, NotAnswerable
from scrubjay.keeper.clients import Client, peer, read_written
from scrubjay.keeper.events import BadEvent, HookEvents
from scrubjay.keeper.foreground import Foreground
from scrubjay.keeper.leftovers import Leftovers
from scrubjay.keeper.processes import give_memory_back
from scrubjay.keeper.protocol import SIZE_MAX, SIZE_MIN
from scrubjay.keeper.redaction import Redaction
from scrubjay.keeper.seat import Seat
from scrubjay.keeper.signals import exit_fields, signal_name, signal_number
from scrubjay.keeper.syncer import Syncer
from scrubjay.tape.format import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from scrubjay.keeper.agent import Agent
    from scrubjay.keeper.protocol import Meta
    from scrubjay.keeper.recorder import Recorder
    from scrubjay.keeper.replies import Replies
    from scrubjay.keeper.secrets import Secret

INPUT_MAX_BYTES = 1 << 20  # typed and not taken by the agent; more is refused
TERMINAL_BYTES = 256 << 10  # more than a terminal can hold of what its program wrote before it ended
ECHO_US = 5000  # within which a terminal echoes
ECHO_MS = 1  # in which it nearly always has, and a person may be served alone
STOP_GRACE_S = 5.0
LEFTOVER_GRACE_S = 2.0  # between TERM and KILL for what the agent left running
LEFTOVER_LOOK_S = 0.1  # so often to see whether it is gone
AWAY_S = 0.2  # after which to see whether a terminal that a shell has taken is ours again
ASKED_US, ASKED_BYTES = 1_000_000, 8192  # how long ago an agent may have asked for what is answered now
SEAL_AFTER_QUIET_S = 2.0
HEAR_MAX = 1000  # rounds of hearing clients at the end; one that never stops talking does not keep a pod from ending
SEAL_BACKLOG_SEGMENTS = 16  # unsealed, 256 MiB: then the disk matters more than the speed
FAREWELL_S = 2.0  # for followers to take the end of the tape

_READ = select.POLLIN | select.POLLHUP | select.POLLERR


class Keeper:
    """One pod's keeper, from its agent's start to the end of its tape."""

    def __init__(
        self,
        *,
        agent: Agent,
        recorder: Recorder,
        listener: socket.socket,
        size: tuple[int, int],
        facts: Meta,
        aides: set[int],
        start_sealer: Callable[[], int | None],
        secrets: list[Secret] | None = None,
    ) -> None:
        self.exit: dict[str, object] = {}  #: how the agent ended, once it has
        self._agent, self._recorder, self._listener = agent, recorder, listener
        self._size, self._facts = size, facts
        self._aides = aides  # children that are ours, not the agent's
        self._start_sealer = start_sealer
        self._redaction = (
            Redaction(secrets, recorder, show=self._show_output, later=self._later) if secrets else None
        )  # None: there is nothing to hide, and that costs nothing
        self._sealer: int | None = None
        self._unsealed = 0  # segments that have ended since the sealer was started
        self._segments = len(recorder.writer.segments)
        self._clients: dict[int, Client] = {}
        self._output_end = recorder.writer.offset  # of the last output on the tape
        self._seated: dict[int, tuple[Client, Seat]] = {}  # by their terminals
        self._answers = Answers()
        self._hook_events = HookEvents(recorder.hide)
        self._epoch = 0  # the highest that a request came with
        self._poll = select.poll()
        self._echo = select.poll()
        self._echo.register(agent.terminal, select.POLLIN)
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._leftovers = Leftovers(recorder, aides)
        self._foreground = Foreground(agent, recorder, self._later)
        self._wait_status: int | None = None
        self._last_words_bytes = TERMINAL_BYTES
        self._agent_gone = False
        self._awaiting_echo = self._holding = False
        self._was_paused: str | None = None
        self._reading_output = False
        self._writing_input = False
        self._wakeup, self._wake = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(self._wake, False)
        self._syncer = Syncer(self._nudge)

    def run(self) -> None:
        """Serve until the agent has ended, its leftovers are gone and the tape is closed and synced."""
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _heard)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._poll.register(self._wakeup, _READ)
        self._poll.register(self._listener, select.POLLIN)
        self._foreground.look_soon()
        self._reap()  # the agent may have ended before the signal handler was there
        self._settle()
        while not self._over:
            self._turn()
        self._close_tape()
        self._say_farewell()
        self._syncer.stop()

    @property
    def _over(self) -> bool:
        return self._agent_gone and not self._leftovers

    def _turn(self) -> None:
        self._watch_terminal()
        for fd, events in self._poll.poll(self._patience_ms()):
            if fd == self._agent.terminal:
                self._serve_terminal(events)
            else:
                self._serve(fd, events)
        self._settle()

    def _serve(self, fd: int, events: int) -> None:
        if fd in self._seated:
            self._serve_seat(*self._seated[fd], events)
        elif fd == self._wakeup:
            self._wake_up()
        elif fd == self._listener.fileno():
            self._accept()
        else:
            self._serve_client(fd, events)

    def _settle(self) -> None:
        """After every turn: write and tell. It delays the echo of a key, so it does nothing that can wait."""
        recorder = self._recorder
        if recorder.writer.written < recorder.writer.offset:
            recorder.flush()
        if self._wait_status is not None:
            self._record_end()
        # What was typed waits a moment for its echo: one frame and one wakeup instead of two.
        self._holding = self._awaiting_echo and not self._holding
        self._awaiting_echo = False
        if self._clients and not self._holding:
            self._tell_followers()
        if recorder.paused != self._was_paused:
            self._announce_pause()

    def _let_time_pass(self) -> None:
        """What is due by now: syncs, the clock, sealing, timers."""
        recorder = self._recorder
        recorder.tick()
        self._answers.pass_time(recorder.writer.offset, recorder.now())
        sync = recorder.begin_sync()
        if sync is not None:
            self._syncer.put(sync)
        if len(recorder.writer.segments) != self._segments:
            self._segments = len(recorder.writer.segments)
            self._unsealed += 1
            if self._unsealed == 1:
                self._later(SEAL_AFTER_QUIET_S, self._seal_when_quiet)
        now = time.monotonic()
        due = [call for when, call in self._timers if when <= now]
        self._timers = [(when, call) for when, call in self._timers if when > now]
        for call in due:
            call()
        self._settle()

    def _patience_ms(self) -> float:
        """How long nothing needs to be done; what is due already is done first."""
        due_us = self._due_us()
        if due_us <= 0:
            self._let_time_pass()
            due_us = 0 if self._over else max(0, self._due_us())
        return -(-due_us // 1000)

    def _due_us(self) -> int:
        due_us = self._recorder.next_tick_us()
        if self._holding and due_us > ECHO_US:
            due_us = ECHO_US
        if self._timers:
            first = min(when for when, _ in self._timers)
            due_us = min(due_us, int((first - time.monotonic()) * 1e6))
        return due_us

    def _tell_followers(self) -> None:
        writer = self._recorder.writer
        for client in list(self._clients.values()):
            if client.seat is not None:
                self._show(client, client.seat)
            elif client.follows_from is not None and client.follows_from < writer.written:
                client.follow(writer)
            if client.waiting or client.closed:
                self._watch_client(client)

    # The agent.

    def _watch_terminal(self) -> None:
        reading = self._recorder.wants_output and not self._agent.hung_up
        writing = self._agent.pending_bytes > 0 and not self._agent.hung_up
        if (reading, writing) == (self._reading_output, self._writing_input):
            return
        self._reading_output, self._writing_input = reading, writing
        if reading or writing:
            events = (select.POLLIN if reading else 0) | (select.POLLOUT if writing else 0)
            self._poll.register(self._agent.terminal, events)
        else:
            self._poll.unregister(self._agent.terminal)

    def _serve_terminal(self, events: int) -> None:
        if events & select.POLLOUT:
            self._agent.type_pending()
        if events & _READ and self._recorder.wants_output:
            self._take_output()

    def _take_output(self) -> int:
        parts = self._agent.read()
        if not parts:
            return 0
        if self._redaction is None:
            self._show_output(parts)
        else:
            self._redaction.show(parts)
        return sum(map(len, parts))

    def _show_output(self, parts: list[bytes]) -> None:
        recorder, writer = self._recorder, self._recorder.writer
        start = writer.offset
        recorder.output(*parts)
        if start < writer.offset == writer.written:
            # At once: everything else that this turn may have to do would delay the echo of a key.
            for _, seat in self._seated.values():
                seat.show_live(parts, self._output_end, writer.written)
        self._output_end = writer.offset
        self._foreground.look_soon()

    def _reap(self) -> None:
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._agent.pid:
                self._wait_status = wait_status
            elif pid in self._aides:
                self._aides.discard(pid)
            elif self._leftovers.ended(pid, wait_status) and not self._leftovers:
                self._end_leftovers()  # ending one may have orphaned another

    def _record_end(self) -> None:
        """Record how the agent ended, after everything it showed before that."""
        if self._wait_status is None or self._agent_gone:
            return
        self._hear_clients()
        while self._last_words_bytes > 0:
            if not self._recorder.wants_output:
                return  # again when there is room
            taken = self._take_output()
            if not taken:
                break
            self._last_words_bytes -= taken
            self._recorder.flush()
        if self._redaction is not None:
            if not self._redaction.release():
                return
            self._redaction.note()
        self.exit = exit_fields(self._wait_status)
        self._recorder.note(Kind.EXIT, **self.exit)
        self._recorder.flush()
        self._agent_gone = True
        self._end_leftovers()

    def _hear_clients(self) -> None:
        """Hear what clients have sent by now: the last hook of an agent may have come and gone unheard."""
        for _ in range(HEAR_MAX):
            ready = [(fd, events & _READ) for fd, events in self._poll.poll(0) if events & _READ]
            ready = [(fd, events) for fd, events in ready if fd in self._clients or fd == self._listener.fileno()]
            if not ready:
                return
            for fd, events in ready:
                self._serve(fd, events)

    def _end_leftovers(self) -> None:
        if self._leftovers.ask_to_end():
            kill_at = time.monotonic() + LEFTOVER_GRACE_S
            self._later(LEFTOVER_LOOK_S, lambda: self._attend_leftovers(kill_at))

    def _attend_leftovers(self, kill_at: float) -> None:
        leftovers = self._leftovers
        if leftovers.look_again() if time.monotonic() < kill_at else leftovers.kill():
            self._later(LEFTOVER_LOOK_S, lambda: self._attend_leftovers(kill_at))

    def _stop(self, author: str, grace_s: float, epoch: int | None = None) -> None:
        if self._wait_status is not None:
            return
        self._signal(signal.SIGTERM, author, epoch)
        self._agent.signal(signal.SIGCONT)  # a stopped agent hears nothing else
        self._later(grace_s, lambda: self._signal(signal.SIGKILL, author, epoch) if self._wait_status is None else None)

    def _signal(self, number: int, author: str, epoch: int | None = None) -> None:
        self._recorder.note(Kind.SIGNAL, signal=signal_name(number), author=author, epoch=epoch)
        self._recorder.flush()
        self._agent.signal(number)

    # What happens elsewhere: signals, and syncs that have run.

    def _nudge(self) -> None:
        try:
            os.write(self._wake, b"\0")
        except BlockingIOError:
            return  # it will wake up for what is in the pipe already

    def _wake_up(self) -> None:
        signals = os.read(self._wakeup, 4096)
        for sync in self._syncer.take_done():
            self._recorder.finish_sync(sync)
            self._tell_synced()
        self._reap()
        if signal.SIGTERM in signals or signal.SIGINT in signals:
            self._stop("keeper", STOP_GRACE_S)

    def _tell_synced(self) -> None:
        for client in list(self._clients.values()):
            if client.wants_synced:
                client.answer({"synced": self._recorder.writer.synced})
                self._watch_client(client)

    # Clients.

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if peer(connection)[1] != os.geteuid():
            connection.close()
            return
        self._clients[connection.fileno()] = Client(connection)
        self._poll.register(connection, select.POLLIN)

    def _serve_client(self, fd: int, events: int) -> None:
        client = self._clients.get(fd)
        if client is None:
            return
        if events & select.POLLOUT:
            client.send()
        if events & _READ:
            for meta, tail in client.receive():
                self._answer(client, meta, tail)
            if self._awaiting_echo:
                self._await_echo()
        if client.waiting or client.closed or events & select.POLLOUT:
            self._watch_client(client)

    def _watch_client(self, client: Client) -> None:
        fd = client.socket.fileno()
        if fd not in self._clients:
            return  # hung up on already
        if client.closed:
            self._unseat(client)
            self._poll.unregister(fd)
            del self._clients[fd]
            client.close()
            self._note_left(client)
            return
        self._poll.modify(client.socket, select.POLLIN | (select.POLLOUT if client.waiting else 0))

    def _answer(self, client: Client, meta: Meta, tail: bytes) -> None:
        number: int | None = None
        try:
            # Nothing else is sent back as it came: a meta that could be read may be too large or deep to be written.
            number = _whole(meta, "id") if "id" in meta else None
            match meta.get("do"):
                case "follow":
                    client.follows_from = _whole(meta, "from")
                    client.relays = client.relays or meta.get("at_terminal") is True
                    client.wants_synced = meta.get("synced") is True
                    self._unseat(client)
                    self._tell_pause(client)
                    return
                case "seat":
                    self._seat(client, _text(meta, "author"), _whole(meta, "from"))
                    self._tell_pause(client)
                    return
                case "leave":
                    if client.seat is not None:
                        self._give_back(client, {"left": client.seat.position})
                    return
                case "answer":
                    client.answer({"re": number, "ok": True, "from": self._let_answer(client)})
                    return
                case "write":
                    self._write(client, meta, tail)
                case "resize":
                    self._fence(meta)
                    self._resize(_whole(meta, "cols"), _whole(meta, "rows"))
                case "signal":
                    epoch = self._fence(meta)
                    if self._wait_status is not None:  # its pid may be another process's by now
                        raise Refused("the agent has ended")
                    self._signal(_named_signal(meta), _text(meta, "author"), epoch)
                case "mark":
                    if self._recorder.ended:
                        raise Refused("the tape is closed")
                    self._recorder.note(Kind.MARK, label=_text(meta, "label"), author=_text(meta, "author"))
                case "event":
                    self._note_event(meta, tail)
                case "stop":
                    epoch = self._fence(meta)
                    self._stop(_text(meta, "author"), _whole(meta, "grace_ms") / 1000, epoch)
                case "status":
                    client.told_paused = self._recorder.paused
                    client.answer({"re": number, "ok": True, "status": self._describe()})
                    return
                case _:
                    raise Refused("that is not something a keeper does")
        except Refused as refusal:
            client.answer({"re": number, "ok": False, "error": str(refusal)})
            return
        self._recorder.flush()
        if number is not None:  # without one nobody waits for the answer
            offset = self._recorder.writer.offset
            self._recorder.when_synced(lambda: client.answer({"re": number, "ok": True, "offset": offset}))

    def _note_event(self, meta: Meta, said: bytes) -> None:
        if self._recorder.ended:
            raise Refused("the tape is closed")
        if self._recorder.writer.full:
            raise Refused("the disk is behind")  # what waits for it must have a bound
        try:
            fields = self._hook_events.take(meta, said)
        except BadEvent as error:
            raise Refused(str(error)) from error
        if fields is not None:
            self._recorder.note(Kind.EVENT, **fields)

    def _fence(self, meta: Meta) -> int | None:
        """The epoch a request belongs to, if any; Refused if a later one has begun."""
        if "epoch" not in meta:
            return None
        epoch = _whole(meta, "epoch")
        if epoch < self._epoch:
            raise Refused(f"fenced: epoch {self._epoch} has begun, and this came with {epoch}")
        self._epoch = epoch
        return epoch

    def _write(self, client: Client, meta: Meta, data: bytes) -> None:
        epoch, author = self._fence(meta), _text(meta, "author")
        if "answers" in meta:
            self._type_answer(client, data, author, _whole(meta, "answers"), epoch)
        elif meta.get("at_terminal") is True:
            self._type_relayed(client, data, author, epoch)
        else:
            self._type(data, author, epoch)

    def _type(self, data: bytes, author: str, epoch: int | None = None, answers: int | None = None) -> None:
        if self._agent_gone or self._agent.hung_up:
            raise Refused("the agent has ended")
        if self._recorder.paused is not None:
            raise Refused(f"recording is paused: {self._recorder.paused}; it goes on when the disk takes more")
        if self._agent.pending_bytes + len(data) > INPUT_MAX_BYTES:
            raise Refused("the agent does not read what was typed before")
        hidden = self._agent.hides_typing
        limit = INPUT_MAX_BYTES // 8
        kept = data if self._redaction is None else self._redaction.typed(data, hidden=hidden)
        for start in range(0, len(kept), limit):
            # On the tape before the agent can act on it.
            self._recorder.typed(kept[start : start + limit], author, hidden=hidden, epoch=epoch, answers=answers)
        self._agent.type(data)
        if answers is None:
            self._awaiting_echo = True

    # What the agent asks its terminal.

    def _let_answer(self, client: Client) -> int:
        """Let a client be the pod's terminal; the offset from which on what is asked is its to answer."""
        recorder = self._recorder
        start, before = self._answers.begin(
            client,
            end=recorder.writer.offset,
            now=recorder.now(),
            quiet_us=recorder.now() - recorder.last_output_at,
            persons=self._persons_attached,
        )
        for _, seat in self._seated.values():
            self._mute(seat)
        if before is not None:
            before.answer({"replaced": True})
            self._watch_client(before)
        return start

    def _type_answer(self, client: Client, data: bytes, author: str, offset: int, epoch: int | None) -> None:
        try:
            self._answers.check(client, offset, end=self._recorder.writer.offset)
        except NotAnswerable as error:
            raise Refused(str(error)) from error
        self._type(data, author, epoch, offset)
        self._answers.answered = offset

    def _mute(self, seat: Seat) -> None:
        """Take what a person's terminal answers out of what it sends."""
        if seat.replies is None and not self._answers.by_persons:
            seat.replies = self._sieve()

    def _sieve(self) -> Replies:
        from scrubjay.keeper.replies import Replies  # 4 ms that a keeper need not take to start

        return Replies(self._position_asked)

    def _position_asked(self) -> bool:
        recorder = self._recorder
        if recorder.now() - recorder.last_output_at > ASKED_US:
            return False
        recent = read_written(recorder.writer, max(0, recorder.writer.written - ASKED_BYTES))
        return recent is not None and (b"\x1b[6n" in recent or b"\x1b[?6n" in recent)

    def _type_relayed(self, client: Client, data: bytes, author: str, epoch: int | None) -> None:
        client.relays = True
        if not self._answers.by_persons:
            if client.replies is None:
                client.replies = self._sieve()
            data = client.replies.feed(data)
            if client.replies.holding:
                client.held_at = time.monotonic()
                self._later(client.replies.hold_s, lambda: self._release_relayed(client, author, epoch))
        if data:
            self._type(data, author, epoch)

    def _release_relayed(self, client: Client, author: str, epoch: int | None) -> None:
        replies = client.replies
        if replies is None or client.closed or time.monotonic() - client.held_at < replies.hold_s:
            return
        keys = replies.release()
        if keys and (epoch is None or epoch >= self._epoch):
            self._type_if_possible(keys, author, epoch)

    @property
    def _persons_attached(self) -> bool:
        return bool(self._seated) or any(client.relays for client in self._clients.values())

    def _note_left(self, client: Client) -> None:
        """A client is gone: the pod's terminal, a person's, or another."""
        if self._answers.end(client, self._recorder.now()):
            for replies in self._sieves():
                replies.taken = b""  # what is answered from now on may be wanted
            self._later(Answers.TAKE_OVER_S, self._let_persons_answer)
        elif client.relays and not self._persons_attached:
            self._answers.last_person_left(self._recorder.writer.offset)

    def _let_persons_answer(self) -> None:
        """The pod's terminal has not come back."""
        if not self._answers.take_over(self._recorder.now()):
            return
        for _, seat in self._seated.values():
            replies, seat.replies = seat.replies, None
            keys = replies.taken + replies.release() if replies is not None else b""
            if keys:
                self._type_if_possible(keys, seat.author)
        for client in self._clients.values():
            if client.replies is not None and not client.replies.holding:
                client.replies = None

    def _sieves(self) -> list[Replies]:
        found = [seat.replies for _, seat in self._seated.values()]
        found += [client.replies for client in self._clients.values()]
        return [replies for replies in found if replies is not None]

    def _type_if_possible(self, keys: bytes, author: str, epoch: int | None = None) -> None:
        try:
            self._type(keys, author, epoch)
        except Refused:
            return  # as a terminal nobody reads from takes no keys

    # Terminals that clients have offered.

    def _seat(self, client: Client, author: str, position: int) -> None:
        self._unseat(client)
        try:
            seat = Seat(peer(client.socket)[0], author, position)
        except OSError as error:
            raise Refused(f"cannot take your terminal: {error.strerror}") from error
        client.seat, client.follows_from = seat, None
        self._seated[seat.terminal] = client, seat
        self._mute(seat)
        self._poll.register(seat.terminal, select.POLLIN)

    def _unseat(self, client: Client) -> None:
        seat, client.seat = client.seat, None
        if seat is not None and self._seated.pop(seat.terminal, None) is not None:
            self._poll.unregister(seat.terminal)
            seat.close()
            if not self._persons_attached:
                self._answers.last_person_left(self._recorder.writer.offset)

    def _serve_seat(self, client: Client, seat: Seat, events: int) -> None:
        if events & select.POLLOUT:
            self._show(client, seat)
        if not events & _READ or client.seat is None:
            return
        keys, leaves = seat.read_keys()
        if keys:
            self._type_from(seat, keys)
        if leaves or seat.gone or events & select.POLLHUP:
            self._give_back(client, {"left": seat.position})
        elif seat.away:
            self._leave_alone(client, seat)
        elif seat.holding:
            self._later(seat.hold_s, lambda: self._release_held(client, seat))

    def _release_held(self, client: Client, seat: Seat) -> None:
        if client.seat is not seat:
            return
        held_s = seat.hold_s
        keys = seat.release_held()
        if keys:
            self._type_from(seat, keys)
        if seat.holding and seat.hold_s > held_s:
            self._later(seat.hold_s, lambda: self._release_held(client, seat))

    def _type_from(self, seat: Seat, keys: bytes) -> None:
        try:
            self._type(keys, seat.author)
        except Refused:
            return  # as a terminal nobody reads from takes no keys
        self._await_echo()

    def _await_echo(self) -> None:
        """Take the echo, which is nearly there: anything done before it is shown would delay it."""
        if self._echo.poll(ECHO_MS) and self._recorder.wants_output:
            self._take_output()
            self._awaiting_echo = False

    def _leave_alone(self, client: Client, seat: Seat) -> None:
        """Leave a terminal to whoever has it now, and look again in a while."""
        if not seat.left_alone:
            seat.left_alone = True
            self._poll.modify(seat.terminal, 0)
            self._later(AWAY_S, lambda: self._look_again(client, seat))

    def _look_again(self, client: Client, seat: Seat) -> None:
        if client.seat is not seat:
            return
        seat.left_alone = False
        if seat.look():
            self._watch_seat(seat)
        self._show(client, seat)

    def _watch_seat(self, seat: Seat) -> None:
        self._poll.modify(seat.terminal, select.POLLIN | (select.POLLOUT if seat.waiting else 0))

    def _show(self, client: Client, seat: Seat) -> None:
        was_waiting = seat.waiting
        if not seat.show(self._recorder.writer):
            self._give_back(client, {"sealed": seat.position})
        elif seat.gone:
            self._give_back(client, {"left": seat.position})
        elif seat.away:
            self._leave_alone(client, seat)
        elif seat.waiting != was_waiting:
            self._watch_seat(seat)

    def _give_back(self, client: Client, why: Meta) -> None:
        self._unseat(client)
        client.answer(why)
        self._watch_client(client)

    def _resize(self, cols: int, rows: int) -> None:
        if not (SIZE_MIN[0] <= cols <= SIZE_MAX[0] and SIZE_MIN[1] <= rows <= SIZE_MAX[1]):
            raise Refused(f"a terminal of {cols}x{rows} is too small or too large")
        if self._agent_gone or (cols, rows) == self._size:
            return
        self._size = (cols, rows)
        if self._redaction is not None:
            self._redaction.release()  # it was shown at the old size
        self._recorder.resized(cols, rows)
        self._recorder.flush()
        self._agent.resize(cols, rows)

    def _describe(self) -> Meta:
        writer = self._recorder.writer
        return self._facts | {
            "state": "ending" if self._agent_gone else "running",
            "keeper_pid": os.getpid(),
            "agent_pid": self._agent.pid,
            "status": self.exit.get("status"),
            "cols": self._size[0],
            "rows": self._size[1],
            "at": self._recorder.now(),
            "last_output_at": self._recorder.last_output_at,
            "offset": writer.offset,
            "written": writer.written,
            "synced": writer.synced,
            "unsynced_us": self._recorder.unsynced_us,
            "paused": self._recorder.paused,
            "sync_failures": self._recorder.sync_failures,
            "followers": sum(client.watches for client in self._clients.values()),
            "answering": self._answers.terminal is not None,
            "answered": self._answers.answered,
            "epoch": self._epoch,
        }

    def _announce_pause(self) -> None:
        self._was_paused = self._recorder.paused
        for client in list(self._clients.values()):
            self._tell_pause(client)

    def _tell_pause(self, client: Client) -> None:
        """Tell a client that watches whether recording is paused, unless it knows."""
        paused = self._recorder.paused
        if client.watches and client.told_paused != paused:
            client.told_paused = paused
            client.answer({"paused": paused})
            self._watch_client(client)

    # The end.

    def _close_tape(self) -> None:
        """Write the last records and return when they are synced, however long the disk takes."""
        recorder = self._recorder
        if not self._agent.hung_up:
            self._agent.close()
            self._agent.hung_up = True
            self._watch_terminal_no_more()
        # Twice, because nothing may follow the end: what a failing disk has to say comes before it.
        self._serve_until_synced()
        self._hear_clients()
        if self._redaction is not None:
            self._redaction.release()
            self._redaction.note()
        recorder.end("ended")
        self._serve_until_synced()

    def _serve_until_synced(self) -> None:
        synced: list[bool] = []
        self._recorder.when_synced(lambda: synced.append(True))
        while not synced or self._recorder.paused is not None:
            self._settle()
            self._serve_all_but_the_agent(self._patience_ms())

    def _serve_all_but_the_agent(self, timeout_ms: float) -> None:
        for fd, events in self._poll.poll(timeout_ms):
            self._serve(fd, events)

    def _watch_terminal_no_more(self) -> None:
        if self._reading_output or self._writing_input:
            self._poll.unregister(self._agent.terminal)
            self._reading_output = self._writing_input = False

    def _say_farewell(self) -> None:
        """Let followers have the end of the tape, but not for ever."""
        self._tell_followers()
        deadline = time.monotonic() + FAREWELL_S
        while self._unserved and time.monotonic() < deadline:
            self._settle()
            self._serve_all_but_the_agent(50)
        for client in self._clients.values():
            ended: Meta = {"ended": self.exit.get("status")}
            if client.seat is not None:
                # A slow terminal has not shown everything; whoever offered it goes on with that.
                ended |= {"shown": client.seat.position, "but": client.seat.unshown_bytes}
                self._unseat(client)
            client.answer(ended)
            client.close()

    @property
    def _unserved(self) -> bool:
        written = self._recorder.writer.written
        for client in self._clients.values():
            shown = client.seat.position if client.seat is not None else client.follows_from
            if client.waiting or (client.seat is not None and client.seat.waiting):
                return True
            if shown is not None and shown < written:
                return True
        return False

    def _seal_when_quiet(self) -> None:
        """Start the sealer, but not while the agent needs the machine: it would cost the flood a third of its speed."""
        quiet = self._recorder.now() - self._recorder.last_output_at >= SEAL_AFTER_QUIET_S * 1e6
        if self._sealer in self._aides or not (quiet or self._unsealed >= SEAL_BACKLOG_SEGMENTS):
            self._later(SEAL_AFTER_QUIET_S, self._seal_when_quiet)
            return
        self._unsealed = 0
        give_memory_back()
        self._sealer = self._start_sealer()
        if self._sealer is not None:
            self._aides.add(self._sealer)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append((time.monotonic() + seconds, call))


class Refused(Exception):
    """A request the keeper will not carry out."""


def _heard(_number: int, _frame: object) -> None:
    """The number is in the wakeup pipe already; a handler must exist for it to get there."""


def _text(meta: Meta, name: str) -> str:
    value = meta.get(name)
    if not isinstance(value, str) or len(value) > 4096:
        raise Refused(f"{name!r} must be a text of at most 4096 characters")
    return value


def _whole(meta: Meta, name: str) -> int:
    value = meta.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise Refused(f"{name!r} must be a whole number")
    return value


def _named_signal(meta: Meta) -> int:
    name = _text(meta, "signal")
    number = signal_number(name)
    if number is None:
        raise Refused(f"{name!r} is not a signal")
    return number
