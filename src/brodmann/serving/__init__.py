"""A server for trained models: answers over HTTP, and a page to try the model on.

| file | |
|---|---|
| `incoming.py` | the body of a request → what is asked, within limits |
| `micro_batches.py` | requests that arrive together → one reading by the model |
| `opening.py` | a folder → a model that answers: an export, or a run in torch |
| `from_torch.py` | what only a model in torch can do: say which heads carried an answer |
| `monitoring.py` | what is counted for Prometheus |
| `door.py` | who may come in, the headers of every response |
| `playground.py` | the page, one file without network |
| `web.py` | the application: its addresses |
| `server.py` | the process: port, signals, `bm.serve` |

Importing this room loads neither torch nor FastAPI, so that an export is served where only its
runtime is installed.
"""
