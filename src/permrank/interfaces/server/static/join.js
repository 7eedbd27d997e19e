// The page that asks before a link changes who somebody is in this browser.
import { post, toast } from "./api.js";

document.getElementById("take").addEventListener("click", async () => {
  try {
    location.replace((await post(location.pathname)).target);  // so that the key is in no history
  } catch (problem) { toast(problem.message, 8); }
});
document.body.dataset.ready = "yes";
