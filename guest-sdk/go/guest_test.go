package guest

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestNumbersAreReadAndWhatIsWrongIsNamed(t *testing.T) {
	body := ` {"deep": {"a": [1, "}]"], "b": "\"a\""}, "a" : -1.5e1 , "\u0062": 2} `
	values, err := (&Sample{Body: []byte(body)}).Numbers("b", "a")
	if err != nil || !slices.Equal(values, []float32{2, -15}) {
		t.Fatal(values, err)
	}
	for body, expected := range map[string]string{
		`{"b": 1}`:           "missing field `a`",
		`{"a": "x"}`:         "`a`: invalid type: string \"x\", expected f32",
		`{"a": true, "b":1}`: "`a`: invalid type: boolean `true`, expected f32",
		`{"a": 1e999}`:       "`a`: number out of range",
		`{"a": {"b": [1]}}`:  "`a`: invalid type: map, expected f32",
		`null`:               "invalid type: null, expected an object",
		`[]`:                 "invalid type: sequence, expected an object",
		`{}`:                 "missing field `a`",
		`{bad`:               "malformed json: ",
		` `:                  "malformed json: the body is empty",
		"\ufeff{}":           "malformed json: the body begins with a byte order mark",
	} {
		_, err := (&Sample{Body: []byte(body)}).Numbers("a")
		var invalid *InvalidInput
		if !errors.As(err, &invalid) || !strings.HasPrefix(invalid.Text, expected) {
			t.Errorf("%s: %v, expected %s", body, err, expected)
		}
	}
}

func FuzzNumbersOfAnyBody(f *testing.F) {
	f.Add(`{"a": [1, {"b": "\\"}], "c": 1}`)
	f.Fuzz(func(t *testing.T, body string) {
		var object map[string]json.RawMessage
		isObject := json.Unmarshal([]byte(body), &object) == nil && object != nil
		if _, err := (&Sample{Body: []byte(body)}).Numbers(); (err == nil) != isObject {
			t.Fatalf("%q: %v", body, err)
		}
	})
}

func TestTensorsHaveTypesAndRows(t *testing.T) {
	tensor := NewTensor([]float32{1, 2, 3, 4}, 2, 2).Named("x")
	row, err := Row[float32](tensor, 1)
	if err != nil || !slices.Equal(row, []float32{3, 4}) || tensor.Datatype != FP32 || len(tensor.Data) != 16 {
		t.Fatal(row, err, tensor)
	}
	if _, err := Values[int64](tensor); err == nil || err.Error() != "tensor `x` is FP32, not INT64" {
		t.Fatal(err)
	}
	shifted := tensor
	shifted.Data = append(make([]byte, 1, 17), tensor.Data...)[1:]
	if values, err := Values[float32](shifted); err != nil || values[3] != 4 {
		t.Fatal(values, err)
	}
	words := NewStrings([]string{"a", "", "bcd"})
	if values, err := words.Strings(); err != nil || !slices.Equal(values, []string{"a", "", "bcd"}) {
		t.Fatal(values, err)
	}
	none, rows := NewStrings(nil, 0), NewTensor([]int64{}, 2, 0, 3)
	for tensor, expected := range map[*Tensor]string{
		&tensor: "[[1,2],[3,4]]", &words: `["a","","bcd"]`, &none: "[]", &rows: "[[],[]]",
	} {
		if written, err := json.Marshal(tensor); err != nil || string(written) != expected {
			t.Error(string(written), err)
		}
	}
	if _, err := (Tensors{tensor}).Named("y"); err == nil || !strings.Contains(err.Error(), `["x"]`) {
		t.Error(err)
	}
	if Argmax([]float32{float32(math.NaN()), 1, 3, 3}) != 2 {
		t.Error("argmax")
	}
}

func TestHalvesAreRoundedToTheNearest(t *testing.T) {
	for value, bits := range map[float32]Float16{1: 0x3c00, -2: 0xc000, 65504: 0x7bff, 65520: 0x7c00, 6e-8: 1, 0.1: 0x2e66, 1.9999: 0x4000} {
		if ToFloat16(value) != bits {
			t.Errorf("%v: %x, expected %x", value, ToFloat16(value), bits)
		}
	}
	for bits := range 1 << 16 {
		half := Float16(bits)
		if value := half.Float32(); value == value && ToFloat16(value) != half {
			t.Fatalf("%x is %v, and back %x", bits, value, ToFloat16(value))
		}
	}
	if ToBFloat16(1.0/3).Float32() != 0.33398438 {
		t.Error(ToBFloat16(1.0 / 3).Float32())
	}
}

func TestWhatJSONDoesNotHaveIsSaid(t *testing.T) {
	nan := float32(math.NaN())
	_, err := JSON(map[string]any{"scores": []float32{1, nan}})
	if err == nil || err.Error() != "the response: JSON has no number NaN; a tensor, and a pointer that is nil, are written with null" {
		t.Error(err)
	}
	if response, err := JSON(NewTensor([]float32{1, nan})); err != nil || string(response.Body) != "[1,null]" {
		t.Error(response, err)
	}
}

func TestErrorsAreSorted(t *testing.T) {
	kind, text, _ := kindOf(Invalid("no %d", 1))
	if kind != kindInvalidInput || text != "no 1" {
		t.Error(kind, text)
	}
	if kind, _, response := kindOf(Respond(Text("hit"))); kind != kindRespond || response.Status != 200 {
		t.Error(kind)
	}
	if kind, text, _ := kindOf(errors.New("broken")); kind != kindInternal || text != "broken" {
		t.Error(kind, text)
	}
	context := NewContext(Request{Header: map[string]string{"X-User": "7"}, Metadata: `{"a": 1}`})
	if value, ok := context.Header("x-user"); !ok || value != "7" || context.Method() != "POST" {
		t.Error(value)
	}
	values := map[string]string{"id": "7"}
	context = NewContext(Request{PathValues: values})
	context.SetPathValue("other", "8")
	if context.PathValue("id") != "7" || context.PathValue("other") != "8" || context.PathValue("none") != "" || len(values) != 1 {
		t.Error(context)
	}
}

func TestAPanicNamesFilesOfTheHandler(t *testing.T) {
	const module = "example.com/flowers"
	for _, it := range []struct{ function, file, module, expected string }{
		{"main.answer", "/home/me/flowers/handler.go", module, "handler.go"},
		{"main.(*table).get.func1", "/home/me/flowers/table.go", "", "table.go"},
		{"example.com/flowers/names.Get", "/home/me/flowers/names/get.go", module, "names/get.go"},
		{"example.com/flowers/a/b%2ec.Get[...]", "example.com/flowers/a/b.c/get.go", module, "a/b%2ec/get.go"},
		{"example.com/flowersmore.Get", "/home/me/flowersmore/get.go", module, ""},
		{"modelhost.example/guest/app.Batch", "/home/me/guest/app/batch.go", module, ""},
		{"modelhost.example/guest.guarded", "/home/me/guest/abi.go", sdk, ""},
		{"runtime.gopanic", "/usr/local/go/src/runtime/panic.go", module, ""},
		{"encoding/json.Marshal", "/usr/local/go/src/encoding/json/encode.go", module, ""},
		{"", "", module, ""},
	} {
		if file := ownFile(it.function, it.file, it.module); file != it.expected {
			t.Errorf("%s in %s: `%s`, expected `%s`", it.function, it.module, file, it.expected)
		}
	}
	if said := panickedBy("of my own\n" + strings.Repeat("é", 1000)).Error(); len(said) > 1020 || !strings.HasPrefix(said, "panic: of my own éé") {
		t.Error(said)
	}
}
