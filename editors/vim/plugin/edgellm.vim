vim9script
# Suggestions of a model at the cursor, shown behind it, from a running `edgellm serve`.
# <Tab> takes one; the next keystroke puts it away and ends the model's work on it.
#   g:edgellm_address  HOST:PORT, or unix:PATH (default: the socket of `edgellm serve`)
#   g:edgellm_key      the key that takes a suggestion (default <Tab>)
#   g:edgellm_delay    milliseconds without a keystroke before the model is asked (default 30)
#   b:edgellm_off      true: no suggestions in this buffer

if !has('channel') || !has('textprop') || !has('patch-9.0.0130') | finish | endif

const FOLDER = !empty($XDG_RUNTIME_DIR) ? $XDG_RUNTIME_DIR .. '/edgellm'
  : (!empty($EDGELLM_HOME) ? $EDGELLM_HOME : expand('~/.local/share/edgellm')) .. '/run'
const SOCKET = !empty($EDGELLM_SOCKET) ? $EDGELLM_SOCKET : FOLDER .. '/edgellm.sock'
const KEY = get(g:, 'edgellm_key', '<Tab>')
const STEP = 8  # the last lines before the cursor may change without the suffix being read anew
var timer = 0
var channel: any = null
var rest = ''  # of a line that has not arrived as a whole
var suggestion = ''
var place: list<number> = []  # buffer, line and column that it is for
var typed = ''  # the word before it, which the answer must begin with: models write whole tokens

def Here(): list<number>
  return [bufnr(), line('.'), col('.') - 1]
enddef

def Lines(): list<string>
  const text = substitute(strpart(suggestion, len(typed)), '\_s*$', '', '')
  return empty(text) ? [] : split(text, "\n", true)
enddef

def Stop()
  timer_stop(timer)
  if channel != null && ch_status(channel) =~ 'open\|buffered' | ch_close(channel) | endif
  [channel, suggestion, rest] = [null, '', '']
  prop_remove({type: 'edgellm', all: true})
enddef

def Later()
  Stop()
  place = Here()
  if get(b:, 'edgellm_off', false) || &buftype != '' | return | endif
  timer = timer_start(get(g:, 'edgellm_delay', 30), (_) => Ask())
enddef

def Ask()
  if mode() !~ '^i' || pumvisible() || place != Here() | return | endif
  const [_, lnum, column] = place
  const [before, after] = [strpart(getline(lnum), 0, column), strpart(getline(lnum), column)]
  typed = matchstr(before, '\s*\w*$')
  const start = (lnum - 1) / STEP * STEP  # lines of the prefix
  const top = max([0, start - 128]) / 64 * 64
  const body = json_encode({
    input_prefix: getline(top + 1, start)->mapnew((_, text) => text .. "\n")->join(''),
    prompt: join(getline(start + 1, lnum - 1) + [strpart(before, 0, column - len(typed))], "\n"),
    input_suffix: join([after] + getline(lnum + 1, lnum + 32), "\n"),
    n_predict: 64, n_indent: len(matchstr(before, '^\s*')), t_max_predict_ms: 1000,
    stop: after =~ '\S' ? ["\n"] : [], temperature: 0, stream: true,
    regex: empty(typed) ? '' : typed .. '(?s:.*)'})
  try
    channel = ch_open(get(g:, 'edgellm_address', 'unix:' .. SOCKET), {mode: 'raw', callback: Read})
    ch_sendraw(channel, "POST /infill HTTP/1.0\r\nHost: localhost\r\nContent-Length: "
      .. $"{len(body)}\r\n\r\n{body}")
  catch /:E90/  # nobody listens there
  endtry
enddef

def Read(from: channel, data: string)
  if from != channel || place != Here() | return | endif
  const lines = split(rest .. data, "\n", true)
  rest = lines[-1]
  for line in lines[: -2]
    suggestion ..= line =~ '^data: {' ? get(json_decode(line[6 :]), 'content', '') : ''
  endfor
  prop_remove({type: 'edgellm', all: true})
  for [i, text] in items(Lines())  # the first behind the cursor, the others below
    const shown = {type: 'edgellm', text: substitute(text, '\t', '    ', 'g') .. (i > 0 ? ' ' : '')}
    prop_add(place[1], i > 0 ? 0 : place[2] + 1, extendnew(shown, i > 0 ? {text_align: 'below'} : {}))
  endfor
enddef

def g:EdgellmKey(): string
  return empty(Lines()) ? eval($'"\{KEY}"') : "\<Cmd>call g:EdgellmTake()\<CR>"
enddef

def g:EdgellmTake()
  const [lines, text, lnum] = [Lines(), getline('.'), line('.')]
  const whole = [strpart(text, 0, place[2]) .. lines[0]] + lines[1 :]
  append(lnum, whole[1 :])
  setline(lnum, whole[0])
  setline(lnum + len(whole) - 1, whole[-1] .. strpart(text, place[2]))
  cursor(lnum + len(whole) - 1, len(whole[-1]) + 1)
enddef

highlight default link EdgellmGhost Comment
prop_type_add('edgellm', {highlight: 'EdgellmGhost'})
execute $'inoremap <expr> {KEY} g:EdgellmKey()'
autocmd TextChangedI * Later()
autocmd CursorMovedI * if place != Here() | Stop() | endif
autocmd InsertLeave,BufLeave * Stop()
