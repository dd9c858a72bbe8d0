package websocket

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"modelhost.example/guest"
)

// echo says again what it hears, in the subprotocol `loud` alone, as the texts ask.
func echo(socket *Socket, context *guest.Context) error {
	if context.Path() == "/elsewhere" {
		return guest.Invalid("no %s", context.Path())
	}
	if !slices.Contains(socket.Protocols(), "loud") {
		return guest.Respond(guest.Text("too quiet").WithStatus(403))
	}
	if err := socket.Accept("loud"); err != nil {
		return err
	}
	for {
		message, err := socket.ReceiveTimeout(time.Second)
		switch said := string(message.Data); {
		case errors.Is(err, ErrTimeout):
			err = socket.SendText("nothing")
		case err != nil:
			return fmt.Errorf("echo: %w", err)
		case said == "stop":
			err = socket.Close(4000, "stopped")
		case said == "fail":
			return errors.New("as asked")
		case said == "done":
			return nil
		case said == "own":
			// It is not what the socket's end is.
			return &CloseError{Code: 1000}
		default:
			err = socket.Send(message)
		}
		if err != nil {
			return err
		}
	}
}

func text(said string) Message { return Message{Text, []byte(said)} }

func TestWhatIsSaidIsRecorded(t *testing.T) {
	loud := guest.Request{Header: map[string]string{"Sec-WebSocket-Protocol": "soft, loud"}}
	for _, it := range []struct {
		says     []Message
		leaves   *CloseError
		expected string
	}{
		{[]Message{text("a"), {Binary, []byte{0, 255}}, text("")}, nil, `[{1 "a"} {2 "\x00\xff"} {1 ""}] loud <nil> <nil>`},
		{[]Message{text("a"), {}, text("b")}, &CloseError{1006, ""}, `[{1 "a"} {1 "nothing"} {1 "b"}] loud <nil> <nil>`},
		{[]Message{text("stop"), text("b")}, nil, "[] loud the socket is closed, with 4000: stopped <nil>"},
		{[]Message{text("a"), text("fail")}, nil, `[{1 "a"}] loud <nil> as asked`},
		{[]Message{text("done"), text("b")}, nil, "[] loud <nil> <nil>"},
		{[]Message{text("own")}, nil, "[] loud <nil> the socket is closed, with 1000"},
	} {
		r := Recorder{Says: it.says, Leaves: it.leaves}
		err := r.Record(echo, loud)
		closed := "<nil>"
		if r.Close != nil {
			closed = r.Close.Error()
		}
		if said := fmt.Sprint(readable(r.Sent), " ", r.Protocol, " ", closed, " ", err); said != it.expected || r.Refusal != nil {
			t.Errorf("%s, expected %s", said, it.expected)
		}
	}
}

func readable(messages []Message) string {
	all := []string{}
	for _, message := range messages {
		all = append(all, fmt.Sprintf("{%d %q}", message.Kind, message.Data))
	}
	return fmt.Sprint(all)
}

func TestAHandshakeIsRefusedAsARequestIs(t *testing.T) {
	for path, expected := range map[string]string{
		"/":          "403 too quiet",
		"/elsewhere": `400 {"error":"no /elsewhere","code":"invalid_input","stage":"pre_inference","request_id":"test"}`,
	} {
		var r Recorder
		err := r.Record(echo, guest.Request{Path: path})
		if err != nil || r.Refusal == nil {
			t.Fatal(path, err)
		}
		if said := fmt.Sprintf("%d %s", r.Refusal.Status, r.Refusal.Body); said != expected {
			t.Error(said)
		}
	}
	var r Recorder
	err := r.Record(func(*Socket, *guest.Context) error { return errors.New("broken") }, guest.Request{})
	if err == nil || err.Error() != "broken" || r.Refusal != nil {
		t.Error(err, r.Refusal)
	}
	err = r.Record(func(socket *Socket, _ *guest.Context) error {
		if err := socket.Accept("loud"); err == nil || err.Error() != `the client offers no subprotocol "loud"` {
			t.Error(err)
		}
		return guest.Respond(guest.Text("not you").WithStatus(403))
	}, guest.Request{})
	if err != nil || r.Refusal.Status != 403 {
		t.Error(err)
	}
}

// Once it is open, what would refuse a handshake is a failure.
func TestASocketThatIsOpenCannotBeRefused(t *testing.T) {
	for _, refusal := range []error{guest.Respond(guest.Text("late")), guest.Invalid("late")} {
		var r Recorder
		err := r.Record(func(socket *Socket, _ *guest.Context) error {
			if err := socket.SendText("open"); err != nil {
				return err
			}
			if err := socket.Accept(""); err == nil || socket.Protocols() != nil {
				t.Error("it is open already")
			}
			return refusal
		}, guest.Request{})
		if err != refusal || r.Refusal != nil || !slices.Equal(r.Texts(), []string{"open"}) {
			t.Error(err)
		}
	}
}

func TestTheFirstCloseCounts(t *testing.T) {
	r := Recorder{Says: []Message{text("a"), text("b")}, Leaves: &CloseError{4001, "left"}}
	err := r.Record(func(socket *Socket, _ *guest.Context) error {
		heard := ""
		for message := range socket.Messages() {
			heard += string(message.Data)
		}
		closed := socket.Closed()
		if heard != "ab" || closed == nil || *closed != (CloseError{4001, "left"}) {
			t.Error(heard, closed)
		}
		_ = socket.Close(1000, "")
		if socket.Closed() != closed {
			t.Error(socket.Closed())
		}
		return nil
	}, guest.Request{})
	if err != nil {
		t.Error(err)
	}
	r = Recorder{Says: []Message{text("a")}}
	err = r.Record(func(socket *Socket, _ *guest.Context) error {
		for _, code := range []int{0, 999, 1005, 2999, 5000, -1, 1 << 17} {
			if err := socket.Close(code, ""); err == nil || socket.Closed() != nil {
				t.Error(code, err)
			}
		}
		if err := socket.Close(1000, string(make([]byte, 124))); err == nil {
			t.Error("a long reason")
		}
		if err := socket.Close(1000, "\xff"); err == nil {
			t.Error("a reason that is no text")
		}
		if err := socket.Close(3000, "enough"); err != nil {
			t.Error(err)
		}
		if err := socket.Close(3001, "again"); err != nil || socket.Closed().Code != 3000 {
			t.Error(err)
		}
		_, err := socket.Receive()
		if sent := socket.SendText("late"); err == nil || sent != err || err != error(socket.Closed()) {
			t.Error(err, sent)
		}
		return err
	}, guest.Request{})
	if err != nil || len(r.Sent) > 0 || r.Close.Code != 3000 {
		t.Error(err, r.Sent, r.Close)
	}
}

func TestWhatIsNoMessageIsNotSent(t *testing.T) {
	var r Recorder
	err := r.Record(func(socket *Socket, _ *guest.Context) error {
		for expected, err := range map[string]error{
			"the text is not UTF-8":                       socket.SendText("\xff"),
			"a message has no kind 0":                     socket.Send(Message{}),
			"the message: json: unsupported type: func()": socket.SendJSON(func() {}),
		} {
			if err == nil || err.Error() != expected {
				t.Error(err)
			}
		}
		message, err := socket.Receive()
		if err == nil {
			t.Error(message)
		}
		return socket.SendJSON([]int{1})
	}, guest.Request{})
	if err != nil || readable(r.Sent) != `[{1 "[1]"}]` {
		t.Error(err, readable(r.Sent))
	}
	var number int
	if err := text("7").JSON(&number); err != nil || number != 7 {
		t.Error(err, number)
	}
}
